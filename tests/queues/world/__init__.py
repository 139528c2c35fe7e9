"""The values that leader and plugin read of a cluster."""
