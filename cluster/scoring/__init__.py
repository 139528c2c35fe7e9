"""What scores need of the cluster: nodes, and the pods on them. Watched only while some policy scores.

Read in this order: `objects` (the fields that are read), `event_handlers` (how nodes and pods change the node
table), `node_scoring` (the answers for a prioritize call), `departures` (which pods count no more),
`reflectors` (when nodes and pods are watched).
"""
