"""The only outbound HTTP of the project."""
