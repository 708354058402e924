"""Loops that run the engine's steps; they hold no logic."""
