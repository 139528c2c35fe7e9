"""The page in Debian's Chromium, against a real control plane: `make test-browser`."""
