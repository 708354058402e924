"""Independent models of the outside APIs, with their own call logs and seeded faults."""
