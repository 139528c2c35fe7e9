"""Requests to the API server.

Read `client` first, then `connection`, on which it is built. `configuration` reads a kubeconfig or a pod's
service account. `pages` lists a kind in pages of limited size.
`servers` has a client for each API server behind one address.
"""
