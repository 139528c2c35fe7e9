"""What queues may use, and who goes next: functions of values, no clock, no I/O.

A queue with a `capability`, or below one with a capability, has a quota. Its pods are created with the gate
`sluice.dev/quota`, and wait until the leader releases them (`controller.quota`). kube-scheduler places what
was released, as ever.

Invariants
- No release takes a queue, or an ancestor of it, over its capability, in any resource.
- What a queue uses counts for each of its ancestors, too.
- Amounts are exact (`queues.apimachinery.quantities`): no floats are compared with a capability.

| what is counted of a pod                          | as                                                    |
|---------------------------------------------------|-------------------------------------------------------|
| waits with one of our gates, not in the book      | nothing                                               |
| is in the book, whatever the watch shows          | what it requests, and one of the resource `pods`      |
| its gang keeps more than its pods use (`gangs`)   | that, for as long as one of them uses something       |
| was released, or is on a node, and not finished   | the same; also while it is being deleted on a node    |
| waits without a gate of ours, not in the book     | the same, but for the release of others like it       |
| is being deleted and never had a node             | nothing: the API server refuses its bind              |
| is gone by force, and may run on its node         | the same, for a time (`force_deletion`)               |
| is finished, or gone in any other way             | nothing                                               |

Read in this order: `resource_names` (which names count), `devices` (what claims of devices count), `lack`
(why a pod has no room), `rules` (what counts beside specs), `guarantees`, `set_aside` and
`exceeded_guarantees` (what is kept free), `usage` (what is used, and what lacks room), `ledger` (all
amounts that count, each with its reason and owner), `deserved` and `shares` (where queues stand),
`release_order` (who goes next), `waiting_index` (who waits, from pass to pass) with `pod_classes` and
`subscriptions`, `claims` (nobody starves), `force_deletion` (what may run on), `book` (what was promised,
as text), `turns` (when each release is sent); `report` has what the status of a queue says, `enforcement`
its condition, `standing` what people are shown of it, and `given_back` what it says was given back. Then
what is given back: `lending` (what queues may ask of each other), `started_gangs` (what of a gang may
go), `giving_back` (which pods go), `kept_by` and `kept_victims` (which rules keep the others),
`reservations` (who gets the room), `asking_round` (whose turn it is to ask), `let_in_again` (who is left
alone); `reclaim_preview` asks all that for the plugin.

`gangs` has what of a PodGroup may be asked for, whole or not at all. `gang_life` has the phases of one;
`gang_rivals` who gives back, of those that hold each other's nodes; `gang_placement` what is remembered of
each; `gang_turns` in which order those are tried again that got too few nodes; `placement_time` how long one
may take to be on nodes.
"""
