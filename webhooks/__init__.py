"""What kube-apiserver calls before it stores an object: the admission webhooks.

Each call goes `routes`, `review` (decode), the module of its kind, `review` (encode). Each module has
functions from a request and the store to an `Answer`: no I/O, no waiting.

Read `routes` for the table of paths, then `pods.pod_admission`: membership, `acceptance`, patch. Workloads
(`workloads`) and PodGroups (`podgroups`) go the same way. `queues` validates what is done to Queues
themselves. `metadata` warns of labels and annotations of Volcano and Kueue, `schedulers` of schedulers that
were not seen. `namespaces`, `commands`, `policies` (the ConfigMap with the scheduling policies) and
`pods.binds` (the bind guard) are one module each. `existing` keeps warnings from what the API server
refuses, since it is there already. `never_fits` warns of what requests more than its queue ever allows.
"""
