"""`kubectl queue convert`: Queues from the ClusterQueues, Cohorts and LocalQueues of Kueue.

Read in this order: `fields` (each field of Kueue's objects, and what becomes of it), `model` (the objects as
values), `decoding` (objects as the API server has them, any version), `limits` (what each may use), `names`
(which queue each LocalQueue is), `preemption` (scheduling policies in place of preemption policies), and
`conversion`, which puts them together. `report` gathers what is lost, `manifests` reads files.
`commands.convert` reads the cluster and prints.

Only values: nothing here asks a server.
"""
