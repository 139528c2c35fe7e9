"""Everything the server knows of the cluster, and everything it writes to it.

In the order in which to read:

| module            | what is in it                                                                        |
|-------------------|--------------------------------------------------------------------------------------|
| `objects`         | the fields that are read of the API server's objects                                 |
| `decoding`        | from bytes to structs, also of an object that has bad fields                         |
| `exceptions`      | what can go wrong between the server and the API server                              |
| `api`             | requests: the client, lists by pages, each API server by itself                      |
| `informers`       | list and watch each kind, and hand its objects to the cache                          |
| `cache`           | the store: queues, pods, PodGroups, workloads, Commands, and each queue's decision   |
| `inflight`        | what was let through and has not been seen stored yet                                |
| `coordination`    | Leases: the leader, the replicas, and what each of them has seen                     |
| `write_queue`     | the threads that write, most urgent first                                            |
| `write_ranks`, `waiting_writes` | which writes go before which, and those that wait                      |
| `key_backoff`     | the back-off of each object or step that fails                                       |
| `retries`         | which loops fail and are tried again, and how that is said                           |
| `on_demand_reflectors` | reflectors that run only while something needs them                            |
| `backoff`, `debounce`, `token_bucket`, `background_thread`, `metrics` | small parts that the others use |
"""
