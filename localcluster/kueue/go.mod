// Kueue's definitions, pinned: a test converts objects that the API server holds to them.
// Nothing is built: they are copied from the module (localcluster/external_tools.py).
module sluice.dev/localcluster/kueue

go 1.26.0

require sigs.k8s.io/kueue v0.17.0
