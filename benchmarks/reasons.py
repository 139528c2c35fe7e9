"""Why a row does not reach a goal, as profiling found it. Values only.

The page says it where the goal is not reached, and nowhere else. CPU is of one core; the machine has two, and all
components together keep both busy in every row that measures a rate, so that a rate is what the CPU time says.
"""

from __future__ import annotations

from collections.abc import Mapping

WHY: Mapping[str, str] = {
    "others": (
        "nothing of ours is called where nothing is stopped; what is left is that each update of a pod's status is "
        "looked at by the conditions (CEL) of the webhook `pods.sluice.dev`, for which the API server first turns "
        "the pod, as it was and as it is, into maps: 0.2 to 0.3 ms. Pairs scatter by more than what is missing."
    ),
    "members": (
        "a member's bind takes 1.5 ms of CPU more than a plain one: kube-scheduler 0.5 to 0.8 (it encodes the pod "
        "and the names of the nodes, and waits for the answer in its only cycle), the server 0.5 (of which the "
        "filter call takes 0.2, and the pod's four events the rest), the API server the rest (it encodes each "
        "event once more, as JSON for the server's watch, and looks at the conditions of `pods.sluice.dev`). "
        "Pairs scatter by more than what is missing."
    ),
    "creations": (
        "a plain creation takes 1.5 ms of CPU (API server 1.1, etcd 0.25, kube-controller-manager 0.15), so 0.85 "
        "leaves 0.27 ms for everything. A member's takes 3.6: in the API server 0.35 are the call of the webhook "
        "and the patch, 0.32 the conditions of the two webhooks (two thirds of that to turn the pod into maps for "
        "CEL), and 0.7 what follows from a larger pod (managed fields, etcd, garbage, events as JSON); the server "
        "takes 0.5. The call alone, whoever answers it, is more than what the goal leaves. Pods of no queue pay "
        "for the conditions alone."
    ),
    "parked-5000": (
        "gated pods cost kube-scheduler nothing once it has seen them; what is left are fewer pairs than five and "
        "their scatter. By filter: each bind of another pod makes kube-scheduler try every refused pod again (an "
        "extender can give it no hint which event may help), so 5,000 of them are a fifth of a second's tries for "
        "each second of back-off."
    ),
    "resume-1000": (
        "taking a gate off is a patch, which takes 3.1 ms of CPU without anything installed where a creation "
        "takes 2.1: the row shows what that alone makes of it. The rest is the server (1.6 to 2.0 ms for its "
        "patch and the four events), kube-scheduler's calls (0.8), the conditions (CEL) on the patch and on the "
        "kubelet's status (0.6), and the server's watch in JSON (0.3). The first bind: a fresh pod needs one "
        "request to be seen by the scheduler; a resume needs the patch of the Queue, which takes 9 ms with its "
        "two webhooks, and then that of the pod, 10 ms beside the three others that are sent with it."
    ),
    "suspend": (
        "a stop takes two writes, one after the other, and the one beside it is one. The patch of the Queue takes "
        "9 ms (of which its mutating webhook 2.5 and its validating one 1.7), the Leases of the replicas 2 to 4, "
        "the status 5 to 7, for a custom resource is checked, pruned and its managed fields are compared by its "
        "schema; the server's own work is 1.3 ms. With three replicas each writes its Lease first."
    ),
    "tree": (
        "the status of a custom resource takes the API server 3.9 ms of CPU, whoever writes it; the server adds "
        "0.9 for its patch and 0.8 for the event, from which it learns that it is stored."
    ),
}
