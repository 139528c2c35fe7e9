"""What the leader and the plugin derive from the same objects."""
