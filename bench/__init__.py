"""Ratios measured in one run on this machine: claim and settle, limiters, push, simulation."""
