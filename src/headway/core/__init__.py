"""Decisions without effects: standard library only, no input or output, no clock."""
