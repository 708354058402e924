"""Boeing: a supplier with two tokens and ten SKUs a call."""
