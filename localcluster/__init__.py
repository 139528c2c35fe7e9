"""A real control plane on one machine, without containers: `make up`, `make down`, and clusters for tests.

Read in this order:

| module             | what is in it                                                                    |
|--------------------|----------------------------------------------------------------------------------|
| `layout`           | the files of one cluster: paths only                                             |
| `versions`         | which Kubernetes: those that there are, and how an older one is built            |
| `build`            | the binaries, built from `go.mod` and cached; `external_tools`: other projects'  |
| `ports`            | the loopback ports, allocated per user                                           |
| `credentials`      | certificates, service account keys, kubeconfigs, tokens; who may call the server |
| `apiserver`        | HTTPS requests to the components, and kubectl                                    |
| `processes`        | starts processes, finds them again by their environment, ends them               |
| `components`       | the command line and the readiness check of each component; waits until ready    |
| `scheduler_config` | kube-scheduler's configuration, from the project's example                       |
| `admission_config` | kube-apiserver's: which certificate it shows to our webhooks                     |
| `manifests`        | applies the project's manifests, adapted to one machine                          |
| `nodes`            | creates the nodes that kwok simulates                                            |
| `lifecycle`        | starts and stops a cluster with all of the above                                 |
| `status`           | what runs: for people, and as `info.json` for tests from outside                 |
| `cluster`          | `LocalCluster`: one running cluster, for tests and benchmarks                    |
| `audit_log`        | the bind requests that the API server has logged                                 |
| `command_line`     | what `make up`, `make down` and `make pods` call                                 |
| `pods`             | real kubelets and real pods in a sandbox: `make pods`                            |

It is not part of the wheel: it runs from a checkout.
"""
