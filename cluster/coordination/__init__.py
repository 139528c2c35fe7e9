"""The replicas coordinate through Leases.

`leases` reads and writes Leases. `leader_election` elects the one replica whose controller writes. `replicas`
has the protocol of the replicas, and reads the Leases of the others: listed, and watched by `lease_events`.
`own_lease` holds the Lease of this replica. `replica_lease` is what such a Lease looks like, `replica_report`
what a replica writes on it about what it has seen.
"""
