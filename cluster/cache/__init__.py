"""The cache of the cluster.

Read `store` first: it holds the other parts, answers questions that need several of them, and passes
`changes` to its listeners. There is one module for each kind: `queues` (with the snapshot of their
decisions), `members` (pods), `podgroups`, `workloads`, `commands`. `pod_requests` and `trimming` say what is
stored of an object. `unreadable_objects` has those that cannot be read in full. `watch_progress` says up to
which version each kind is known and makes it catch up, with `marker_pods`.
"""
