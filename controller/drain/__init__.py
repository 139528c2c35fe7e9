"""Drains: evicts the running pods of queues with `stopPolicy: HoldAndDrain`.

What may go, and in which order, is decided by `queues.drain`, which is pure. This package reads the cluster
for it, sends the requests and records their results.

A drain, in the order in which it happens; begin with `controller`, which takes the steps of all drains:

========  =======================  =====================================================================
step      module                   what it does
========  =======================  =====================================================================
Snapshot  `running_pods`           reads the running pods of the drained queues from the cache
          `snapshot`               reads budgets, terminating pods and nodes from the API server
          `budget_reader`          sends the requests of that reading (`controller.evictions`)
Plan      `queues.drain.plan`      decides which pods may go now, and what blocks the others
Execute   `limits`                 shares the server's limits; pauses while the API server is busy
          `eviction`               evicts and deletes pods: request, outcome, metric, events
          `job_suspension`         suspends Jobs, and resumes them once their queue schedules again
          `scaling`                brings other workloads to zero replicas past the deadline, and back
          `suspend_patches`        the mark of both on the workload (`controller.evictions`)
          `job_commands`           its part for Volcano's Jobs: Commands, and what a Job shows of them
Account   `state`                  holds the state of all drains, with its invariants
          `request_states`         its part for single requests: their states, and when each is repeated
Status    `queues.drain.progress`  says in the status of each queue how far its drain is
========  =======================  =====================================================================
"""
