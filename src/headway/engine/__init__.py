"""The line: tick, fetch and what they need from the outside, written as ports."""
