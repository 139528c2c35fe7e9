"""Tests with real nodes: the server's pods, what is done to them, and what is asked of them all the while."""
