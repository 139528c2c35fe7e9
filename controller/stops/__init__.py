"""Acknowledges and ends stops, in the order of reading.

- `acknowledgement`: whether a stop is known to hold, by the rule in `queues.status.acknowledgement`.
- `replica_readings`, `bind_guard`, `volume_waits`: three sources of the evidence.
- `resume_at`: ends a stop at its `resumeAt`.
"""
