"""What disruption budgets were promised, watched from outside: never fewer ready pods than they want."""

from __future__ import annotations

from collections.abc import Mapping

from localcluster.cluster import LocalCluster
from tests.support.e2e.api_requests import Object
from tests.support.e2e.pod_watch import PodWatch


class BudgetWatch(PodWatch):
    """`wanted`: by value of label `app`, how many have to be ready; whoever is on its way is not."""

    def __init__(self, cluster: LocalCluster, pods_path: str, *, wanted: Mapping[str, int]) -> None:
        self._wanted = wanted
        self._ready: dict[str, str] = {}
        #: Each time that a pod went and left too few: its name, and how many were left.
        self.overruns: list[tuple[str, int]] = []
        #: The least that were ready from the beginning on.
        self.least: dict[str, int] = {}
        self.failed_pods: set[str] = set()
        super().__init__(cluster, pods_path)
        self.least = {app: self._number(app) for app in self._wanted}
        self.start()

    def note(self, pod: Object, *, gone: bool) -> None:
        meta = pod["metadata"]
        app = meta.get("labels", {}).get("app", "")
        # Whoever was told to go is Failed once its node has ended it.
        if pod["status"].get("phase") == "Failed" and "deletionTimestamp" not in meta:
            self.failed_pods.add(meta["name"])
        if not gone and "deletionTimestamp" not in meta and is_ready(pod):
            self._ready[meta["uid"]] = app
        elif self._ready.pop(meta["uid"], "") in self._wanted:
            left = self._number(app)
            self.least[app] = min(self.least[app], left)
            if left < self._wanted[app]:
                self.overruns.append((meta["name"], left))

    def _number(self, app: str) -> int:
        return sum(1 for each in self._ready.values() if each == app)


def is_ready(pod: Object) -> bool:
    """Whether its Ready condition is True."""
    held = pod["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in held)
