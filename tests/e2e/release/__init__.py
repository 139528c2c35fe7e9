"""What ships, with the real Helm and kubectl."""
