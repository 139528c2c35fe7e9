"""Why a row does not reach a goal, as profiling found it. Values only.

The page says it where the goal is not reached, and nowhere else. All components together keep both cores
busy in every row that measures a rate, so that CPU time is what such a rate is made of.
"""

from __future__ import annotations

from collections.abc import Mapping

WHY: Mapping[str, str] = {
    "others": (
        "Pairs scatter by a third, so that one run of this row is 0.90 and 0.84, and the next 1.05 and 0.95 "
        "with the same code. What repeats: kube-apiserver allocates 1.03 times what it does with nothing "
        "installed (row `allocations`), no condition looks at the bind or at a status of such a pod, and "
        "where nothing is stopped nothing of ours is called for it. Beside a stop in its namespace each bind "
        "is one call: the server takes 0.5 s of CPU for 1,000, and the API server 0.5 more. With any entry "
        "of an extender kube-scheduler computes no signatures of pods (`OpportunisticBatching`, since 1.35): "
        "the lines of an entry that is asked about no pod show that this costs nothing here."
    ),
    "quota-pass": (
        "Most of the tail is of the pods that end, and not of the passes: with nobody waiting the p99 "
        "beside the same ends is twice that of quiet, and beside ends of pods of no queue, of which the "
        "server hears nothing, 1.4 to 1.8 times (two trials): the API server and what watches it take "
        "both cores meanwhile. In a pass a call waits for the interpreter for one step, each time that it "
        "has waited for anything else. The goals in CPU time were set where 5,000 took 73 to 103 ms, and "
        "30 to 45 where none fits; this run is of a machine on which one turn of an empty loop of Python "
        "takes 0.18 µs, and what a pod counts has grown since (devices by class, pods deleted by force). "
        "Profiled: of the 50 µs of a pod that is released a quarter is to find the queue that is next, a "
        "quarter to count it and to take it out of the index, a fifth to see that it still is as it was "
        "read. Of the 16 of one that does not fit two fifths are to read it, and as much to say what it "
        "lacks. No function takes an eighth by itself."
    ),
    "gang-pass": (
        "It is the number of pods, and the machine (see `quota-pass`): 8,000 pods that are released by "
        "themselves take no less (second line). Where none fits gangs take more than those: single pods "
        "that are alike are read together, and each pod of a gang is looked at to find whether it is "
        "complete. Profiled: two thirds are to read the gangs, and of that a third to find out what each "
        "of their pods waits for. No function takes a tenth by itself."
    ),
    "gang-flow": (
        "The large gang: single pods are bound while others of them are created, and a gang begins with its "
        "last pod, so that all of its work is behind the last creation. From the first creation on both take "
        "the same (second line). The small ones: both cores are busy, so that a rate is one of CPU time. By "
        "requests, in a run of its own, a pod of a gang of 4 costs a quarter of a creation of a PodGroup, "
        "with its webhook, and half a patch of a PodGroup by the leader: two for each, as its phase changes. "
        "The client creates pods milliseconds after their PodGroup, over other connections. So most are "
        "admitted before the server's watch has shown it, and the leader writes their queue on them by a "
        "patch more: 0.8 a pod, with an event for every third. That is not where PodGroups are there before."
    ),
    "quota-flow": (
        "Both cores are busy, so that a rate is one of CPU time. By component, in a run of its own, a pod "
        "takes 14.9 ms of the API server, 2.9 of kube-scheduler and 4.7 of the server; a member without a "
        "quota 10.7, 2.7 and 2.7; one of the programs in Go 12.5 and 2.8, and their own CPU is not counted. "
        "What is beyond Go: the book, 0.18 writes a pod, of which each takes the API server 4.4 ms and 190 "
        "KiB; a larger patch of the pod, with a label that says it was released, its UID and its version; "
        "and the server, which answers, counts and sends in Python. With nothing beside it on the machine "
        "pairs scatter from 0.77 to 1.65 of Go."
    ),
    "allocations": (
        "No condition looks at a bind or at a status of a pod of no queue (431 KiB with nothing registered, "
        "430 to 434 with entries that compare labels alone). What is left goes by the second, not by the "
        "bind: the server's watches, Leases and lists, and the 1 to 2 MiB a second that an idle API server "
        "allocates. A slow machine shows more of both. CPU time scatters from 4.0 to 6.5 ms for the same "
        "binds with nothing installed, so that what is beyond the goal (0.06 in the median, 0.12 ± 0.11 in "
        "the mean) is seen, and not where it goes."
    ),
    "members": (
        "What a call costs, whoever answers it, is in the row: with the Go extender in place of ours fewer "
        "members are bound than with ours. kube-scheduler takes 0.4 to 0.7 ms of CPU more for a member than "
        "for another pod (it encodes the pod and the names of the nodes, and waits for the answer in its "
        "only cycle), the server 0.5, and the API server encodes each event of a member once more, as JSON "
        "for the server's watch."
    ),
    "creations": (
        "0.75 of a plain creation is out of reach of any webhook: the one in Go, which looks up nothing, "
        "reaches half of a plain creation (last line of the row). A plain creation takes 1.5 ms of CPU "
        "(API server 1.1, etcd 0.25, kube-controller-manager 0.15), a member's 3.6. For whatever webhook "
        "answers, the API server encodes the pod, calls, applies the patch, decodes the pod again, has all "
        "its mutating plugins look at the pod a second time since it changed (the conditions of "
        "`members.pods` among them), and then stores and sends a larger pod (managed fields, garbage, etcd). "
        "Beside the one in Go ours speaks HTTP/2 in Python, 0.1 ms for a call, decides in 0.02, and hears of "
        "each member by its watch. Pods of no queue pay for the conditions of `members.pods` and "
        "`unasked.pods`, 28 KiB and 0.05 ms each, of which nearly all is to turn the pod into maps for CEL. "
        "Annotations name queues and no selector reads those, so the first has to look at each pod; a "
        "mutating webhook that is called later can write them, so the second has to look once more. The API "
        "server shares no such maps, neither between entries nor with admission policies. Where only some "
        "namespaces are managed, pods of the others pay for neither (`managed_namespaces`)."
    ),
    "parked-1000": (
        "Nothing was found that they cost. Measured by component in a run of its own, 1,000 binds beside "
        "1,000 parked by gate took 9.97 s of CPU where none were parked 9.76 (server 0.28 and 0.29, "
        "kube-scheduler 1.78 and 1.67, kube-apiserver 7.91 and 7.81), at 147 binds/s both; each side "
        "differed by a fifth from one time to the next. In the run before it was 1.05 (0.94 to 1.20)."
    ),
    "parked-5000": (
        "It is kube-scheduler's: measured by component in a run of its own, 1,000 binds beside 5,000 parked "
        "by gate took 0.5 s more of its CPU (2.2 where none were parked 1.7), of 10 s in all, and nothing "
        "more of the server (0.27 and 0.30) or of kube-apiserver. It keeps gated pods with those that it "
        "cannot schedule, and goes through these at events; with 1,000 it does not show. In the run before "
        "it was 0.87 (0.84 to 1.19)."
    ),
    "resume-1000": (
        "What members cost whoever lets them go is in the row: gates of members taken off by the Go client, "
        "with the Go extender in the server's place and nobody deciding anything, take twice as long to the "
        "first bind as with nothing installed, and 1.0 to 1.45 times to the last (a trial). For a pod the "
        "API server allocates 1,133 KiB (1,190 when a gate was taken off by a strategic merge patch) where "
        "it takes 831 by hand: each event of the pod once more, as JSON for the server's watch; 60 for the "
        "conditions (CEL) of `pods.sluice.dev` on the patch; and what a larger pod costs everywhere. "
        "kube-scheduler takes 0.5 to 1.0 ms of CPU more (its call), the server 1.6, of which what it "
        "computes is 0.3 (24 µs for an event, 10 in a sync); the rest is TLS, HTTP and threads. The first "
        "bind, by the audit log of a busy machine: the patch of the Queue with its two webhooks 11 ms, in "
        "the API server 5 ms later the patch of the pod, 7 ms; then 35 ms until kube-scheduler sends the "
        "bind (5 with nothing installed), its first call, on a new connection, among them."
    ),
    "resume-5000": (
        "Both cores are busy from the first bind to the last, so the ratio is one of CPU time. Profiled in a "
        "run of its own (52 s beside 34): 20.5 ms for a pod, 13.2 for a fresh one. kube-apiserver takes 11.0 "
        "of them (7.5 fresh), kube-scheduler 3.3 (1.9), kwok 2.0 (1.7), etcd 1.6 (1.2), the server 1.5, "
        "kube-controller-manager 1.1 (0.9). What each does with it is as in `resume-1000`."
    ),
    "live-flow": (
        "0.75 is out of reach of any webhook and extender: those in Go, of which one looks up nothing and "
        "the other decides nothing, reach 0.59 of the rate with nothing installed (last lines). Ours is 0.96 "
        "of that. A live member is a member's creation (see `creations`) and a member's bind (see "
        "`members`), and both cores are busy. The API server allocates 933 KiB for one, 923 with those in "
        "Go, where it takes 668 with nothing installed."
    ),
    "suspend": (
        "A stop is three writes in a row, and what stands beside it is one. By the audit log: the patch of "
        "the Queue takes 9 ms, of which its mutating webhook 2.5 and its validating one 1.7 (the API server "
        "encodes the Queue twice over, calls and decodes; the server's handlers take 0.06 each); the marker "
        "pod, whose event shows that the pods are known as they are now, 2.5 to 4; the status 5 to 7. The "
        "Leases of the replicas are listed beside the marker (1), the pods without a label after it, since "
        "they are to be as new (1). With three replicas the two others write their Leases twice (2 to 2.5 "
        "each), before the marker and after it: a pod that one of them passed until it had seen the stop is "
        "known to all only by a marker that is newer than its report, and only its next report says so. "
        "Without that promise, webhooks and pods two writes remain: the last lines, 15 ms by "
        "themselves. So no server that is asked about the Queue reaches that with one replica."
    ),
    "drain": (
        "Giving back is a resume by gate of pods that a Deployment counts. Gates of the same pods that a Go "
        "client takes off, with nothing installed and nobody asked, take 1.75 times as long as fresh pods "
        "(last line), and that the pods are members and an extender is asked makes it a third more whoever "
        "answers (see the Go extender in `resume-1000`): about 2.4 of the 1.8. For a pod the API server "
        "allocates 1,580 KiB where a fresh one takes 1,069, its creation included: one patch, one bind, one "
        "status and one event, and 0.8 statuses of a Deployment or ReplicaSet, where fresh pods, of which "
        "those of one ReplicaSet come together, bring 0.5 (1.2 and 1,738 KiB before gates of one owner's "
        "pods, of one second, were taken off together; a trial each). The drain itself is near its goal: an "
        "eviction waits up to 0.1 s for a consistent list of budgets, 16 of a namespace are under way at a "
        "time, and what is drained is replaced at once by a member's creation (see `creations`)."
    ),
    "filter-loaded": (
        "While 100,000 pods are listed a thread computes without a pause, and a call waits up to four times "
        "for the interpreter, 0.1 ms each (`SWITCH_INTERVAL`); the Go extender has a core of its own. The "
        "median is near the goal: 1.36 (1.18 to 1.79) in one run, 1.73 and 1.60 in two others."
    ),
    "prioritize": (
        "What every call costs: of 0.26 ms with 100 names the handler takes 0.04 in process (0.075 before "
        "scores were kept from call to call); an answer that costs nothing takes 0.11 to 0.12 over the same "
        "wire. The Go extender's own median scatters between 0.18 and 0.37 ms at this size; with nodeorder, "
        "which takes us longer, the ratio was 0.83 in the same run. From 1,000 names on it is below 1."
    ),
    "windows-edge": (
        "As many bare patches of the same queues take longer than the goal on this machine. Both cores are "
        "busy, so that a time is one of CPU. By component, in a run of its own with 200 queues, an edge "
        "takes 11.5 ms of the API server and 3.5 of the server, and the status of its queue as much again; a "
        "bare patch, about which our webhooks are asked, takes 15 and 5. So edges take what bare patches do, "
        "and acknowledgements 1.5 times that at least, since the API server takes no status with a spec. "
        "Where webhooks were asked about edges, and statuses and evidence came beside them, an edge with all "
        "of that took 39 to 45 and 26 to 28."
    ),
    "tree": (
        "A status of a custom resource takes 3.9 ms of CPU, whoever writes it (two cores, and 1.95 ms from "
        "one to the next in what stands beside); the server's own part, deriving each status, sending it "
        "and hearing of it, comes on top."
    ),
}
