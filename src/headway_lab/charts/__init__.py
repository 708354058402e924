"""Charts of simulated runs: one description, drawn as text in a terminal or as a picture."""
