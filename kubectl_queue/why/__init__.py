"""`kubectl queue why`: what stops an object.

Read in this order: `targets` (what the command line asks about), `explainer` (reads the object, its owners,
its queue and the chain, and asks the rules in `queues.why`), `membership` (the queue of an object),
`room` (a pod that waits for room) and `room_reader` (why it has none), `line` (who waits with it), `gang` and
`podgroups`, `events`, `owned_pods` (of kinds that are not known).
`commands.why` prints the answer.
"""
