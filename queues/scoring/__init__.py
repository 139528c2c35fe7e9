"""Which nodes a scheduling policy prefers: Volcano's formulae over all nodes of a call at once.

Read in this order: `requests` (what a pod asks for, in whole units), `preferences` (what else its spec says),
`node_table` (what nodes have and what is used of it, with `pod_classes`), `node_matches` (what the facts of
nodes say to a question); then the scores: `resource_scores` (which `kept_scores` keeps from call to call),
`preference_scores`, `topology_scores`; `total` adds them up by the weights of a policy, and `levels` turns
them into the 0..10 of an extender.

Only this package needs numpy, so that it is loaded when the first policy scores.
"""
