"""How long it takes, and how much memory, to know all pods of a large cluster."""
