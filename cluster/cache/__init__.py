"""The cache of the cluster.

Read `store` first: it holds the other parts, and passes `changes` to its listeners.

- One module for each kind: `queues` (with the snapshot of their decisions), `members` (pods), `podgroups`,
  `workloads`, `commands`, `namespaces`, `scheduling_policies`, `system_pods`, `node_totals`,
  `device_claims`, `priority_classes`, `schedulers` (when others than Kubernetes' own gave a sign),
  `missing_owners`, `force_deleted_pods` (what those use that are gone and may run on), `registrations` (our
  webhook configurations and admission policies: whether the API server asks us).
- One for each question that several kinds answer: `memberships` (which queue is this in?), `decisions` (may
  it start?), `pod_policies` (which scheduling policy counts?), `live_members` (what does a close wait for?),
  `settling_binds` (which passes may still become binds, and which may a lost replica have given?),
  `refused_members` (what may let a refused pod go?), `queue_shares` (what may be taken from whom?).
- What is stored of an object is in `queues.world`; `unreadable_objects` has those that cannot be read in
  full. `label_changes`: the labels of members that somebody changed.
- How new all that is: `watch_progress` says up to which version each kind is known and makes it catch up,
  with `marker_pods`; `own_writes` has the versions of our own writes.
"""
