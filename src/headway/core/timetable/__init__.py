"""When a listing is due and which listings share a call."""
