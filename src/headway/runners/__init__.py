"""Loops that turn the engine; they hold no logic."""
