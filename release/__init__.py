"""`make release`: builds the wheel and the container image of a tagged commit. Not part of the wheel."""
