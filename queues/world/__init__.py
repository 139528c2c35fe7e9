"""What a cluster's objects are to the rules: members, workloads and gangs, with all that follows from them.

The leader and the plugin read the same values here, each from its own objects: the informers' cache
(`cluster.cache`) and lists (`kubectl_queue`). There is no third reader.

Read in this order: `objects` (the fields that are read), `trimming` (what is kept of them), `held_requests`;
`members` (a pod that is a member, and what follows from it), `workloads`, `podgroups`; `running_pods` (what a
drain is about); `world` (what rules ask of all of them), `pod_rules` (which pods wait for room, and may go),
`gang_pods`, `line` (what stands in line). `listed` is a world of lists; `reading` and `lenient_readers` make
objects of dicts, for the plugin.
"""
