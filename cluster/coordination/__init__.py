"""The replicas coordinate through Leases.

`leases` reads and writes Leases. `leader_election` elects the one replica whose controller writes. `replicas`
keeps the Lease of this replica and reads those of the others. `replica_report` is what a replica writes on
its Lease about what it has seen.
"""
