"""What capabilities promise, watched from outside: no state of the pods that takes a queue over them."""

from __future__ import annotations

from collections.abc import Mapping

from localcluster.cluster import LocalCluster
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import OWN_GATE, gates, on_a_node
from tests.support.e2e.pod_watch import PodWatch

LABEL, RELEASED = "sluice.dev/queue", "sluice.dev/released"


class CapabilityWatch(PodWatch):
    """`limits`: by queue, itself and the queues above it, and how many CPUs each of these may use; None: any
    number.
    """

    def __init__(
        self, cluster: LocalCluster, pods_path: str, *, limits: Mapping[str, Mapping[str, int | None]]
    ) -> None:
        self._limits = limits
        self._using: dict[str, tuple[str, int]] = {}
        #: Each state that took a queue over its capability.
        self.overruns: list[str] = []
        #: The most that each queue used.
        self.most: dict[str, int] = {}
        self.ever_on_a_node: set[str] = set()
        super().__init__(cluster, pods_path)
        self.start()

    def note(self, pod: Object, *, gone: bool) -> None:
        meta = pod["metadata"]
        queue = meta.get("labels", {}).get(LABEL, "")
        if queue not in self._limits:
            return
        if on_a_node(pod):
            self.ever_on_a_node.add(meta["name"])
        waits = [gate for gate in gates(pod) if gate != OWN_GATE]
        is_released = meta.get("labels", {}).get(RELEASED) == meta["uid"]
        if (
            gone
            or waits
            or not (is_released or on_a_node(pod))
            or pod["status"].get("phase") in ("Succeeded", "Failed")
        ):
            self._using.pop(meta["uid"], None)
            return
        cpu = int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        self._using[meta["uid"]] = queue, cpu
        for above, limit in self._limits[queue].items():
            used = sum(each for of, each in self._using.values() if above in self._limits[of])
            self.most[above] = max(used, self.most.get(above, 0))
            if limit is not None and used > limit:
                self.overruns.append(f"{meta['name']} takes {above} to {used} of {limit}")
