"""Releases pods that wait for room in a quota; the leader alone does. The rules are in `queues.quota`, and
all amounts that count in `queues.quota.ledger`.

- `book_writes`: opens the book, and writes it.
- `waiting_pods`: the pods that wait and what queues use, in step with the cache; chooses who is next.
- `gang_reading`: reads from the cache what is asked for of a gang, and what is kept for it.
- `lost_pods`: the pods that gangs have lost, whose room is kept for a while.
- `waiting_gangs`: what is asked for of each gang, or why nothing is.
- `gang_placements`: has gangs that get no nodes in time give back what they were released for.
- `voided`: pods that keep changing are tried less often.
- `releases`: whom to release, and what became of each release.
- `give_backs`: evicts pods of queues that borrow for those that wait for what their queues deserve.
- `given_back_lines`: what of that is written into the statuses of both queues.
- `rules_in_force`: which rules of scheduling policies count for quotas.
"""
