"""What operators see of a deployment from outside: metrics."""
