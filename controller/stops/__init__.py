"""Stops, in the order of reading.

- `acknowledgement`: whether a stop is known to hold; gathers the evidence for the rule in
  `queues.status.acknowledgement`.
- `replica_readings`, `bind_guard`, `volume_waits`: three sources of that evidence.
- `pending_stops`: the stops that wait for it.
- `reservations`: what a stopped queue had reserved is free for others.
- `resume_at`: a stop that ends on time.
"""
