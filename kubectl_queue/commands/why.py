"""why: the causes from an object to the queue that stops it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from kubectl_queue import snapshot as reading
from kubectl_queue.access.objects import Objects
from kubectl_queue.access.responses import Object
from kubectl_queue.cli.flags import Flags
from kubectl_queue.cli.options import Output, formats
from kubectl_queue.cli.suggestions import suggested
from kubectl_queue.commands.command import Verb, checked
from kubectl_queue.drain import progress as drains
from kubectl_queue.errors import QueueError
from kubectl_queue.output.formats import DOCUMENTS, printed
from kubectl_queue.output.tables import at
from kubectl_queue.session import Session
from kubectl_queue.why import queue_chain as chains
from kubectl_queue.why import targets
from kubectl_queue.why.membership import Owners, belonging
from kubectl_queue.why.rendering import lines
from kubectl_queue.why.subjects import (
    labels_of,
    subject,
    thing,
)
from kubectl_queue.why.targets import (
    NAMESPACE,
    QUEUE,
    Target,
    Type,
)
from queues.why.explain import explain
from queues.why.explanation import (
    Explanation,
    ObjectRef,
    ObservedQueues,
)

#: Owners above each other that are followed: a cycle of references ends.
_HEIGHT = 8


def why(session: Session, flags: Flags) -> int:
    chosen = targets.read(flags.names)
    placed = any(each.type.namespaced for each in chosen)
    namespace = checked(session.namespace, see=targets.COMMAND) if placed else ""
    asking = _Asking(session, namespace=namespace)
    told: list[_Told] = []
    for target in chosen:
        try:
            told.append(asking.ask(target))
        except QueueError as exc:
            session.console.note(str(exc))
    _print(session, told, as_list=len(chosen) > 1)
    return 0 if len(told) == len(chosen) else 1


class _Told(NamedTuple):
    """An answer, and the queues whose drain it speaks of: that of the object first."""

    explanation: Explanation
    draining: Sequence[Object] = ()


def _print(session: Session, told: list[_Told], *, as_list: bool) -> None:
    if session.output in DOCUMENTS:
        found: list[Any] = [{**msgspec.to_builtins(each), **_drain(draining)} for each, draining in told]
        if found:
            session.console.say(printed({"items": found} if as_list else found[0], output=session.output))
        return
    now = session.calls.now
    texts = [
        "\n".join(lines(each, now=now, drain=drains.lines(draining, now=now))) for each, draining in told
    ]
    if texts:
        session.console.say("\n\n".join(texts))


def _drain(draining: Sequence[Object]) -> dict[str, Any]:
    found = drains.summed(draining)
    return {"drain": msgspec.to_builtins(found)} if found is not None else {}


class _Asking:
    """One command's questions."""

    def __init__(self, session: Session, *, namespace: str) -> None:
        self._session = session
        self._objects = Objects(session.calls)
        self._namespace = namespace

    def ask(self, target: Target) -> _Told:
        """The explanation. Raises what the server answers where the object cannot be read."""
        item = self._item(target)
        owners = tuple(self._owners(item))
        held: Owners = tuple(
            (kind, each) for _, kind, each in owners if kind is not None and each is not None
        )
        found = belonging(target.type, item, owners=held, objects=self._objects)
        first = item if target.type is QUEUE else None
        queue = found.queue if found else None
        queues = chains.read(self._session.api, queue, first=first) if queue else None
        labels = self._labels(item, queues)
        told = subject(target.type, item, owners=tuple(each for each, _, _ in owners), labels=labels)
        explanation = explain(told, found, queues=queues)
        drained = queue and queues is not None and queues.verdict(queue).drains
        return _Told(explanation, self._draining(target.type, str(queue)) if drained else ())

    def _labels(self, item: Object, queues: ObservedQueues | None) -> Mapping[str, str] | None:
        """The labels of the object's namespace, read where a queue of its chain asks for any."""
        place = str(at(item, "metadata.namespace") or "")
        asks = queues is not None and any(queue.namespaces for queue in queues.tree.queues.values())
        namespace = self._objects.find(NAMESPACE, place, namespace="") if place and asks else None
        return labels_of(namespace) if namespace is not None else None

    def _draining(self, kind: Type, queue: str) -> Sequence[Object]:
        """The queue of the object; where that is what was asked about, with those below it."""
        seen = reading.take(self._session.api, [queue])
        if queue not in seen.items:
            return ()
        return seen.from_top(queue) if kind is QUEUE else [seen.items[queue]]

    def _item(self, target: Target) -> Object:
        if target.type is not QUEUE:
            return self._objects.get(target.type, target.name, namespace=self._namespace)
        with suggested(self._session.api, target.name):
            return self._session.api.get(target.name)

    def _owners(self, item: Object) -> Iterator[tuple[ObjectRef, Type | None, Object | None]]:
        """Each owner, nearest first, with its object where that can be read."""
        place = str(at(item, "metadata.namespace") or "")
        for _ in range(_HEIGHT):
            owner = _controller(item)
            if not owner:
                return
            kind = targets.of_owner(str(owner.get("kind")), str(owner.get("apiVersion")))
            named = str(owner.get("name"))
            found = self._objects.find(kind, named, namespace=place) if kind else None
            if found is not None and at(found, "metadata.uid") != owner.get("uid"):
                found = None  # another one of its name
            yield (
                thing(kind, found) if kind and found else ObjectRef(str(owner.get("kind")), named, place),
                kind,
                found,
            )
            if found is None:
                return
            item = found


def _controller(item: Object) -> Object:
    listed = at(item, "metadata.ownerReferences") or ()
    return next((each for each in listed if each.get("controller")), {})


VERBS = (
    Verb(
        name="why",
        usage="TYPE/NAME... | QUEUE...",
        long=(
            "Say why an object waits: its owners, the queue that it is in and by which rule, the chain of "
            "queues above that, who stops it, since when and why, and what lets it go. TYPE is pod, "
            "podgroup, queue or a kind of workload, spelt as for kubectl; a name alone is a queue's. Of a "
            "pod whose queue does not stop it, it says what else does, as far as that is known; of a queue "
            "that drains, how far that is and what blocks it."
        ),
        examples=(
            "kubectl queue why pod/train-0 -n research",
            "kubectl queue why deploy web",
            "kubectl queue why research -o yaml",
        ),
        flags=(formats(Output.JSON, Output.YAML),),
        run=why,
    ),
)
