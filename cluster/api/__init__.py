"""Requests to the API server.

Read `client` first, then `connection` below it. `pages` lists a kind in bounded pages. `servers` has a
client of each API server behind one address. `disruption_budgets` reads what a drain needs to know now.
"""
