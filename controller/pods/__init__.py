"""Writes on members, in the order of reading.

- `member_labels`: gives members without our label the label; `unlabelled_lists` says when such pods are
  listed, `unlabelled_pods` how, `unlabelled_members` what is known of each, `label_writes` writes them;
  `label_backoff` when a label that is changed each time is written again.
- `pod_conditions`: writes on each gated pod why it waits.
- `ungating`: removes our gate, and makes kube-scheduler retry pods that filter refused, once their queue
  schedules.
- `workload_podgroups`: makes the PodGroups of workloads that ask for a gang by an annotation of Volcano.
- `refused_pods`: has the pods that filter refused retried after a resume; `retry_event` by one event for all.
- `retry`: makes kube-scheduler retry pods whose preemption was denied, and pods whose last filter answer has
  an unknown outcome.
- `recreation`: deletes pods that filter refuses, where their queue says so and their controllers create them
  again with the gate; `missing_pods` says how many of these may be missing at a time.
- `untaken_pods`: says of pods that their scheduler was not seen, and leaves their room to others.
- `nominations`: clears the nominations of pods of a stopped queue.
"""
