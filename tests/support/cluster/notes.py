"""ConfigMaps as cheap objects to be reflected: written straight to the API server, heard by a strict sink."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec

from cluster.api.client import Client
from cluster.informers.reflector import Reflector, ReflectorOptions
from cluster.metrics import Metrics
from cluster.objects import Metadata
from localcluster.apiserver import Https
from localcluster.cluster import LocalCluster

Number = Annotated[str, msgspec.Meta(pattern="^[0-9]+$")]


class Data(msgspec.Struct, frozen=True):
    """`n` is a number, or the note cannot be read."""

    n: Number = "0"


class Note(msgspec.Struct, frozen=True):
    metadata: Metadata
    data: Data = Data()

    @property
    def state(self) -> tuple[str, int]:
        return self.metadata.name, self.metadata.version


def path(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps" + (f"/{name}" if name else "")


def body(name: str, n: str = "0") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"n": n}}


class Notes:
    """The notes of one namespace, as their writer knows them. For one thread."""

    def __init__(self, api: Https, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        #: The resource version of every write, the deletions included.
        self.versions: list[int] = []

    def create(self, name: str, n: str = "0") -> int:
        return self._write("POST", path(self._namespace), body(name, n))

    def update(self, name: str, n: str) -> int:
        return self._write("PATCH", path(self._namespace, name), {"data": {"n": n}})

    def delete(self, name: str) -> None:
        reply = self._api.request("DELETE", path(self._namespace, name))
        assert reply.status == 200, reply.body

    def now(self) -> set[tuple[str, int]]:
        """A fresh list."""
        items = self._api.request("GET", path(self._namespace)).json()["items"]
        return {(item["metadata"]["name"], int(item["metadata"]["resourceVersion"])) for item in items}

    def _write(self, method: str, where: str, content: object) -> int:
        reply = self._api.request(method, where, content)
        assert reply.status in {200, 201}, reply.body
        version = int(reply.json()["metadata"]["resourceVersion"])
        self.versions.append(version)
        return version


def create_many(cluster: LocalCluster, namespace: str, number: int) -> None:
    def some(start: int) -> None:
        with cluster.api() as api:
            notes = Notes(api, namespace)
            for each in range(start, number, 4):
                notes.create(f"note-{each:05}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(some, range(4)))


class Strict:
    """A sink that complains of whatever an honest reflector never does."""

    def __init__(self) -> None:
        self.held: dict[str, Note] = {}
        self.lists = 0
        self.heard: list[tuple[str, str, int]] = []
        self.complaints: list[str] = []
        self._last = 0
        self._threads: set[str] = set()

    def replace(self, objects: list[Note]) -> None:
        self.lists += 1
        self._last = 0
        self._threads.add(threading.current_thread().name)
        fresh = {one.metadata.uid: one for one in objects}
        if len(fresh) != len(objects):
            self.complaints.append("a list has an object twice")
        for uid, one in fresh.items():
            if uid in self.held and self.held[uid].metadata.version > one.metadata.version:
                self.complaints.append(f"a list is older than what was heard of {one.state}")
        self.held = fresh

    def upsert(self, note: Note) -> None:
        held = self.held.get(note.metadata.uid)
        if held is not None and held.metadata.version >= note.metadata.version:
            self.complaints.append(f"{note.state} came after {held.state}")
        self._hear("upsert", note)
        self.held[note.metadata.uid] = note

    def remove(self, note: Note) -> None:
        if self.held.pop(note.metadata.uid, None) is None:
            self.complaints.append(f"{note.state} went and was not there")
        self._hear("remove", note)

    def _hear(self, what: str, note: Note) -> None:
        name, version = note.state
        if version <= self._last:
            self.complaints.append(f"{name} {version} came after {self._last}")
        self._last = version
        self.heard.append((what, name, version))
        self._threads.add(threading.current_thread().name)

    def now(self) -> set[tuple[str, int]]:
        return {note.state for note in list(self.held.values())}

    def names(self) -> set[str]:
        return {name for name, _ in self.now()} - {"kube-root-ca.crt"}

    def agreed(self) -> None:
        """Nothing to complain of, and one thread told it all."""
        assert self.complaints == [], self.complaints
        assert len(self._threads) <= 1


@contextmanager
def reflected(
    client: Client,
    where: str,
    sink: Strict,
    *,
    advanced: Callable[[str, int], object] = lambda _kind, _applied: None,
    answered: Callable[[], object] = lambda: None,
) -> Iterator[Reflector[Note]]:
    """A reflector that runs and is stopped; whatever happens, its thread has ended at the end."""
    reflector: Reflector[Note] = Reflector(
        kind="notes",
        path=where,
        decode=msgspec.json.Decoder(Note).decode,
        handler=sink,
        client=client,
        counters=Metrics(),
        options=ReflectorOptions(advanced=advanced, answered=answered),
    )
    reflector.start()
    try:
        yield reflector
    finally:
        reflector.stop()


def eventually(holds: Callable[[], object], *, within: float = 60.0) -> None:
    """Return once it holds; fail when it does not in time."""
    end = time.monotonic() + within
    while not holds():
        assert time.monotonic() < end, "did not come true in time"
        time.sleep(0.005)
