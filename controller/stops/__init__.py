"""Acknowledges and ends stops, and keeps those that Volcano made, in the order of reading.

- `acknowledgement`: whether a stop is known to hold, by the rule in `queues.status.acknowledgement`.
- `replica_readings`, `bind_guard`, `volume_waits`: three sources of the evidence.
- `registration_lapses`: withdraws what was promised while the API server does not ask us.
- `resume_at`: ends a stop at its `resumeAt`.
- `adopted_close`: writes the close of a queue that Volcano had closed into its spec.
"""
