"""Replicas agree by Leases.

`leases` reads and writes them. `leader_election`: the one replica whose controller writes. `replicas`: the
Lease of each replica that answers requests, and the other ones. `replica_report`: what a replica says on
its Lease that it has seen.
"""
