"""What it costs to decide who is released next, in the controller's own parts and in a server at work."""
