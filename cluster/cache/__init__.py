"""What is known of the cluster.

Read `store` first: it holds the other parts, answers questions that touch several of them, and passes
`changes` to its listeners. One module a kind: `queues` (with the snapshot of what each decides), `members`
(pods), `podgroups`, `workloads`, `commands`. `pod_requests` and `trimming` say what is kept of an object.
`unreadable_objects` has those that cannot be read in full. `watch_progress` says up to which version each
kind is known, and makes it catch up, with `marker_pods`.
"""
