"""Objects of the API server, and what the rules in `queues` take of them. Nothing here reads or writes.

Read in this order: `fields` (an object is the server's JSON; its fields), `types` (the kinds that have a
queue), `queues` (Queue objects, and the decisions on them), `members` and `workloads` (as `queues.world` has
them), `inventory` and `drains` (what a drain works on), `explained` (what `queues.why` explains), `keys`
(labels and annotations of Volcano and Kueue on an object), `schedulers` (which schedulers workloads name).
"""
