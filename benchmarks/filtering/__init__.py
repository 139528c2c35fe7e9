"""Filter over the real wire beside a Go extender that does the same."""
