"""Real kubelets and real pods on one machine: `make pods`, `make pods-down`. Linux, x86_64 and root only.

The control plane of `localcluster`, and beside it nodes with kubelet, containerd, runc, CNI and kube-proxy,
all in one sandbox of namespaces. The server runs in it as pods, from `manifests` as they are.

Invariants
- Nothing is installed, and nothing of the machine is changed: when the sandbox ends, its processes, mounts
  and network namespaces end with it; its cgroups are then removed.
- No image registry is needed. What is downloaded (Go modules, Debian's packages, Python's) has its version
  and hash in a file of this tree, and is kept in the cache outside it.
- The cache of the control plane's binaries is not touched: another Go module, another key.

Read in this order:

| module          | what is in it                                                                |
|-----------------|------------------------------------------------------------------------------|
| `layout`        | the files and addresses of nodes: values only                                |
| `packages`      | Debian packages, unpacked and not installed (`debian-packages.txt`)          |
| `binaries`      | kubelet and kube-proxy from `go.mod` here; containerd, runc, CNI from Debian |
| `images`        | the server's image and `pause`, without a registry                           |
| `image_builder` | `release/Containerfile`, built by buildah on a base of Debian's Python       |
| `sandbox`       | the namespaces; `init` and `relay` are programs that run in it               |
| `control_plane` | what differs from a control plane without real nodes                         |
| `node`          | the configuration and the programs of one node                               |
| `installation`  | installs the server, as docs/operating/install.md says                       |
| `lifecycle`     | starts and stops a cluster with all of the above                             |

| case                                 | what happens                                                       |
|--------------------------------------|--------------------------------------------------------------------|
| another system, or not root          | `StartFailed` says so, and that `make up` needs neither            |
| first start                          | builds for some minutes, with a line of progress every ten seconds |
| up twice, or after an interrupted up | does what is left to do                                            |
| up fails                             | what it has started is ended; the logs stay                        |
| down with nothing running            | removes what is left                                               |
"""
