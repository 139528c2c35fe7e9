"""`make image` and `make release`: the wheel and the container image. Not part of the wheel."""
