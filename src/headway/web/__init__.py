"""The page, its live stream and the API."""
