"""A cluster in which everything that can go wrong with releases does, in random order."""
