"""The reflectors of every kind that is kept, started and stopped together.

Order matters at the start: what decides membership (namespaces, PodGroups, queues) is listed before
the workloads and pods are, so that none is judged by half of what is known. The definitions of our own
kinds are watched like everything else; nothing counts as in sync while one of them lacks what we need.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec

from cluster.client import Client
from cluster.counting import Counting
from cluster.definitions import (
    NEEDED,
    Definition,
    Definitions,
    DefinitionSink,
    read_queue,
    read_queue_leniently,
)
from cluster.definitions import PATH as DEFINITIONS
from cluster.lenient import Reader
from cluster.objects import Command, Namespace, Pod, PodGroup, QueueObject, WorkloadObject
from cluster.reflector import Reflector
from cluster.sinks import NamespaceSink, QueueSink
from cluster.store import Store
from queues.kinds import KINDS

SCHEDULING = "/apis/scheduling.volcano.sh/v1beta1"
BUS = "/apis/bus.volcano.sh/v1alpha1"

#: The definitions of our own kinds, by the name that their reflector has.
DEFINED = {f"definition-{name.partition('.')[0]}": name for name in NEEDED}
#: What is listed first, and what needs it.
FIRST = (*DEFINED, "namespaces", "podgroups", "queues", "commands")
THEN = (*KINDS, "pods")


class Watching:
    """The reflectors. Owner: the server, which starts and stops them."""

    def __init__(self, *, client: Client, store: Store, counting: Counting) -> None:
        self._client = client
        self._counting = counting
        self._isolation = store.isolation
        self._unreadable = store.unreadable
        self.reflectors: dict[str, Reflector[Any]] = {
            "namespaces": self._reflector(
                "namespaces", "/api/v1/namespaces", Namespace, NamespaceSink(store)
            ),
            "podgroups": self._reflector("podgroups", f"{SCHEDULING}/podgroups", PodGroup, store.podgroups),
            "queues": self._reflector(
                "queues",
                f"{SCHEDULING}/queues",
                QueueObject,
                QueueSink(store),
                decode=read_queue,
                lenient=read_queue_leniently,
            ),
            "commands": self._reflector("commands", f"{BUS}/commands", Command, store.commands),
            **{
                key: self._reflector(
                    key, kind.path, WorkloadObject, store.workloads.of_kind[key], optional=kind.optional
                )
                for key, kind in KINDS.items()
            },
            "pods": self._reflector("pods", "/api/v1/pods", Pod, store.members),
        }
        self._definitions = Definitions(self._mended)
        self.reflectors |= {kind: self._definition(kind, name) for kind, name in DEFINED.items()}
        self._synced = tuple(reflector.synced.is_set for reflector in self.reflectors.values())
        store.relist_members = self._relist_members

    def _relist_members(self) -> None:
        for kind in THEN:
            self.reflectors[kind].relist()

    def _reflector(
        self,
        kind: str,
        path: str,
        shape: type[Any],
        sink: Any,
        *,
        decode: Any = None,
        lenient: Any = None,
        selector: str = "",
        optional: bool = False,
    ) -> Reflector[Any]:
        return Reflector(
            kind=kind,
            path=path,
            decode=decode or msgspec.json.Decoder(shape).decode,
            sink=sink,
            client=self._client,
            counters=self._counting,
            selector=selector,
            optional=optional,
            isolation=self._isolation,
            lenient=lenient or Reader(shape),
            unreadable=self._unreadable,
        )

    def _definition(self, kind: str, name: str) -> Reflector[Any]:
        """Watched by its name alone, which is all that we have a right to."""
        sink = DefinitionSink(name, self._definitions)
        return self._reflector(kind, DEFINITIONS, Definition, sink, selector=f"metadata.name={name}")

    def _mended(self) -> None:
        """Read anew what may have been served without its fields."""
        for kind in ("queues", "podgroups", "commands"):
            self.reflectors[kind].relist()

    def start(self, *, patience: float) -> None:
        """Start all; waits up to `patience` seconds for what members need, then starts them anyway."""
        for kind in FIRST:
            self.reflectors[kind].start()
        until = time.monotonic() + patience
        for kind in FIRST:
            self.reflectors[kind].synced.wait(max(0.0, until - time.monotonic()))
        for kind in THEN:
            self.reflectors[kind].start()

    def stop(self) -> None:
        for reflector in self.reflectors.values():
            reflector.stop()

    def synced(self) -> bool:
        """Whether all kinds are, and the definitions of ours serve what we need; asked for every request."""
        return all(is_set() for is_set in self._synced) and not self._definitions.faulty

    def faults(self) -> list[str]:
        """What is wrong with the definitions of our own kinds."""
        return self._definitions.faults()

    def unsynced(self) -> list[str]:
        return [kind for kind, reflector in self.reflectors.items() if not reflector.synced.is_set()]
