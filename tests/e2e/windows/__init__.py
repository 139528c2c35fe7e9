"""Change windows on a control plane."""
