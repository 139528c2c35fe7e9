"""Every state of the pods and PodGroups of a namespace and of the book, as the API server has stored it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import NamedTuple

from controller.quota.book_writes import KEY, NAME
from localcluster.cluster import LocalCluster
from localcluster.components import NAMESPACE
from tests.support.e2e.api_requests import Object
from tests.support.e2e.pod_watch import END, ConfigMapWatch, PodGroupWatch, PodWatch
from tests.support.quota.quota_judge import QuotaJudge, SeenGang, SeenPod, seen_gang, seen_pod


class StoredPod(NamedTuple):
    """`at`: when it was heard of, in monotonic seconds."""

    version: int
    at: float
    gone: bool
    pod: SeenPod


class StoredBook(NamedTuple):
    """`text`: None where it is gone."""

    version: int
    text: str | None


class StoredGang(NamedTuple):
    version: int
    gang: SeenGang


class RecordedPods(PodWatch):
    """Also what there is at this moment, for those who change it. `prefix`: see `seen_pod`."""

    def __init__(self, cluster: LocalCluster, path: str, *, prefix: str) -> None:
        self.stored: list[StoredPod] = []
        self._prefix = prefix
        self._pods: dict[str, Object] = {}
        self._lock = threading.Lock()
        self._gang_begins = threading.Event()
        super().__init__(cluster, path)
        self.start()

    def note(self, pod: Object, *, gone: bool) -> None:
        meta = pod["metadata"]
        seen = seen_pod(pod, prefix=self._prefix)
        self.stored.append(StoredPod(seen.version, time.monotonic(), gone, seen))
        if seen.gang and seen.is_released and not seen.ran:
            self._gang_begins.set()
        with self._lock:
            if gone:
                self._pods.pop(meta["name"], None)
            else:
                self._pods[meta["name"]] = pod

    def await_gang(self, seconds: float) -> None:
        """Until a pod of a gang is released, or so long."""
        self._gang_begins.clear()
        self._gang_begins.wait(seconds)

    def pods(self) -> list[Object]:
        with self._lock:
            return [pod for name, pod in self._pods.items() if name != END]


class RecordedBook(ConfigMapWatch):
    def __init__(self, cluster: LocalCluster) -> None:
        self.stored: list[StoredBook] = []
        super().__init__(cluster, f"/api/v1/namespaces/{NAMESPACE}/configmaps")
        self.start()

    def note(self, config_map: Object, *, gone: bool) -> None:
        meta = config_map["metadata"]
        if meta["name"] == NAME:
            text = None if gone else config_map.get("data", {}).get(KEY, "")
            self.stored.append(StoredBook(int(meta["resourceVersion"]), text))


class RecordedGangs(PodGroupWatch):
    """As each of them was first."""

    def __init__(self, cluster: LocalCluster, path: str) -> None:
        self.stored: dict[str, StoredGang] = {}
        super().__init__(cluster, path)
        self.start()

    def note(self, podgroup: Object, *, gone: bool) -> None:
        gang = seen_gang(podgroup)
        if gang.name == END:
            return
        self.stored.setdefault(gang.uid, StoredGang(int(podgroup["metadata"]["resourceVersion"]), gang))


def judged(pods: Iterable[StoredPod], books: Iterable[StoredBook], gangs: Iterable[StoredGang]) -> QuotaJudge:
    """All of it in the order of resource versions, which the API server's store counts for all objects."""
    judge = QuotaJudge()
    all_of_it: list[StoredPod | StoredBook | StoredGang] = [*pods, *books, *gangs]
    for seen in sorted(all_of_it, key=lambda each: each.version):
        if isinstance(seen, StoredBook):
            judge.note_book(seen.text)
        elif isinstance(seen, StoredGang):
            judge.note_gang(seen.gang)
        else:
            judge.note_pod(seen.pod, gone=seen.gone, at=seen.at)
    return judge
