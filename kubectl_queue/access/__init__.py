"""How the plugin reaches the API server: kubectl carries each request, a small HTTP client speaks to kubectl.

Read in this order
- `kubectl`: starts `kubectl proxy` on a socket in a private directory, with the flags that the user gave.
- `transport`: HTTP over that socket, with time limits; what went wrong below HTTP, in words.
- `responses`: an answer of the API server as an object, or as an error in kubectl's words.
- `client`: requests of any kind, and those about queues.
- `queue_reader`, `object_reader`: all queues or the chain of one; single objects of any type.
- `replicas`: the server's Leases and webhooks; `volcano`: Volcano's webhook on queues.

Why kubectl and not a library: `docs/contributing/decisions/plugin-access.md`.
"""
