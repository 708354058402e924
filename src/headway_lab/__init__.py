"""Simulators, simulations and the demo: what stands outside Headway and tests it."""
