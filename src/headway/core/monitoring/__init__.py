"""Alert rules, alert states, metrics and messages."""
