"""The rules of queues, as functions of values: no I/O, no clock, no Flask, no kubernetes.

The extender, the webhooks, the controller and the plugin all decide by these rules. Read in this order:

1. `states`: the states, the actions and their tables; `queue`: the fields of a Queue that decide;
   `volcano_close`: which queues Volcano had closed.
2. `tree`: chains, children, and what breaks a chain.
3. `causes`: what stops a pod or refuses work; `verdict`: the one decision for a queue; `snapshot`: the
   decisions of all queues, for request paths.
4. `membership`: the queue of a pod or workload; `workload_kinds`, and
   `workload_life`: whether one is live or paused; `namespace_access` and
   `namespace_selectors`: the namespaces that may use a queue; `namespace_binding`: the queues that may be
   named in a namespace; `managed_namespaces`: those that are ours at all; `mode`: how we are asked.
   `scale_record`: what a drain remembers of a workload that it brought to zero. `node_groups`: on which
   nodes the pods of a queue run. `workload_gangs`: gangs that workloads ask for by an annotation of Volcano.
   `untaken`: pods that no scheduler takes.
5. `start_decision`: whether a pod may start, and if not, why. The extender, the webhooks, the controller and
   the plugin all ask it.
6. `messages`: the texts that users read, and `contacts`: whom these name; `similar_names`: which queue a
   wrong name may mean; `well_known`: the keys that we write; `text`: what others wrote, made fit to be shown.

Rooms: `metadata` (labels and annotations of Volcano and Kueue), `admission` (what may be submitted and
edited), `status` (what the controller writes on a Queue),
`registration` (whether the API server asks us), `why` (what `kubectl queue why` explains), `drain` (which
pods a drain evicts, and when), `world` (what a cluster's objects are to the rules), `apimachinery` (the
formats of Kubernetes: quantities, label selectors, timestamps).
"""
