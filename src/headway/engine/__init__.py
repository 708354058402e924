"""The engine: tick, fetch, push, pull, and the ports they need."""
