"""Measurements, each a ratio against a thing run beside it. `make bench`, or `make bench ROW=name`."""
