"""Queues that are emptied (`stopPolicy: HoldAndDrain`): what the controller does with the plan of
`queues.drain`.

Read in this order, which is the order of a step:

1. `controller`: a step of each drain, from the snapshot to the status.
2. `running_pods`, `snapshot`: what a drain knows, from the cache and from the API server.
3. `queues.drain.plan`: what may go now. Pure.
4. `state`: what is remembered, with its invariants; `request_states` (what was asked for) and `limits` (how
   fast drains may go) are parts of it.
5. `eviction`, `job_suspension`: the requests, and their outcomes.
6. `queues.drain.progress`: what the status says.
"""
