"""Which namespaces are ours at all: those that setting `managed_namespaces` selects. Empty: every namespace.

The webhooks and policies have the same selector (`manifests/managed-namespaces`). So the API server asks us
nothing about the other namespaces and evaluates no condition there: a pod costs it no more than without us.
Kueue has it as managedJobsNamespaceSelector.

| what                                     | managed      | not managed                                      |
|------------------------------------------|--------------|--------------------------------------------------|
| a pod, workload or PodGroup is created   | as ever      | it is in no queue, whatever it names             |
| a pod or PodGroup is created with label  | as ever      | it is refused (policy `sluice-unmanaged`): it    |
| `sluice.dev/queue`                       |              | would count in a queue that did not accept it    |
| a stored pod with that label             | is a member  | stays a member until it is gone: filter, guard,  |
|                                          |              | gate, drains and counts are as ever              |
| a stored pod without it                  | by the rules | is in no queue                                   |
| a stored PodGroup with it                | counts       | counts until it is gone                          |
| a stored PodGroup without it             | counts       | is as if it did not exist                        |
| a stored workload                        | is a member  | is none. What a drain suspended is resumed with  |
|                                          |              | its queue                                        |
| a pod waits for its PodGroup (label "")  | as ever      | it waits on, unless the PodGroup has the label   |
| the namespace's annotation names a queue | counts       | has no effect; who writes it is warned           |

The API server decides by its selectors what we are asked, and we answer that as ever. A stored object is
judged by the labels that the watch of namespaces has. So no member is lost while the two differ: what was
admitted has the label. While the labels of a namespace are not known, what says that it was admitted is a
member and all else is not; it is judged again once they are.

| what changes                  | what follows                                                               |
|-------------------------------|----------------------------------------------------------------------------|
| the namespace becomes managed | the leader lists its pods, as when it comes to name a queue                |
|                               | (`controller.pods.member_labels`): those that name one become members. A   |
|                               | stop waits for that                                                        |
| it is managed no more         | who changes the labels is warned of the members that stay, with their      |
|                               | number; metric `sluice_unmanaged_members` counts them by queue             |
| the setting                   | the same for each namespace, from the restart on; the log of each replica  |
|                               | says then how many members stay                                            |

Invariants
- In a namespace that is not managed members only become fewer.
- All replicas with the same setting judge the same labels alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from queues.apimachinery.label_selectors import BadSelector
from queues.namespace_selectors import NamespaceSelector, compile_selector, relabel_command
from queues.text import quoted

#: The label that `manifests/managed-namespaces` asks for; the one of ours that users write.
MANAGED_LABEL = "sluice.dev/managed"
_FIELDS = frozenset({"matchLabels", "matchExpressions"})
FORMS = 'empty, labels as KEY=VALUE with commas between, or a LabelSelector as JSON, {"matchLabels": {...}}'


def read_selector(text: str) -> NamespaceSelector | None:
    """The selector of the setting; None where all namespaces are managed. Raises `BadSelector`."""
    if not text.strip():
        return None
    value = _decoded(text)
    if not isinstance(value, dict) or not value.keys() <= _FIELDS:
        raise BadSelector("a selector has matchLabels and matchExpressions")
    selector = compile_selector(value, allowed=[MANAGED_LABEL])
    if selector is None:
        raise BadSelector("it selects every namespace; leave it empty")
    if selector.unreadable:
        raise BadSelector(selector.unreadable)
    return selector


def _decoded(text: str) -> object:
    if text.lstrip().startswith("{"):
        try:
            decoded: object = msgspec.json.decode(text)
        except msgspec.DecodeError as exc:
            raise BadSelector(f"it is not JSON: {exc}") from exc
        return decoded
    pairs = [term.strip().split("=") for term in text.split(",")]
    if any(len(pair) != 2 for pair in pairs) or len({pair[0] for pair in pairs}) < len(pairs):
        raise BadSelector("labels are KEY=VALUE, each once")
    return {"matchLabels": {key.strip(): value.strip() for key, value in pairs}}


def manages(selector: NamespaceSelector | None, labels: Mapping[str, str] | None) -> bool | None:
    """Whether the namespace with these labels is managed; None where they are not known."""
    if selector is None:
        return True
    return None if labels is None else selector.selects(labels)


def no_effect_warning(namespace: str, selector: NamespaceSelector, labels: Mapping[str, str]) -> str:
    """The admission warning for a namespace that names a queue and is not managed."""
    return f"{_unmanaged(namespace, selector, labels)}: its queue has no effect"


def unmanaged_text(namespace: str, selector: NamespaceSelector, labels: Mapping[str, str]) -> str:
    """Why nothing in the namespace is in a queue, and what would change that."""
    unmet = selector.unmet(labels)
    command = relabel_command(namespace, unmet) if unmet is not None else ""
    way_out = f"; to have it managed: {command}" if command else ""
    return f"{_unmanaged(namespace, selector, labels)}: nothing that is created in it is in a queue{way_out}"


def remaining_warnings(namespace: str, members: Mapping[str, int]) -> Iterable[str]:
    """The admission warnings for a namespace that is managed no more. `members`: its live pods by queue."""
    name = quoted(namespace, limit=30)
    yield f"namespace {name} is no longer managed by sluice: its new pods are in no queue"
    if members:
        yield _who_stays(members)


def staying_text(members: Mapping[str, int]) -> str:
    """What the log says at a start: the setting may be new. `members`: the live pods there, by queue."""
    return f"namespaces that are not managed: {_who_stays(members)}"


def _who_stays(members: Mapping[str, int]) -> str:
    total, queues = sum(members.values()), sorted(members)
    pods = "1 pod stays" if total == 1 else f"{total} pods stay"
    more = f" and {len(queues) - 1} more" if len(queues) > 1 else ""
    queue = quoted(queues[0], limit=40)
    return f"{pods} in queue {queue}{more} until gone; stops hold for them, and them alone"


def _unmanaged(namespace: str, selector: NamespaceSelector, labels: Mapping[str, str]) -> str:
    unmet = selector.unmet(labels)
    wanted = f" (no {unmet.text})" if unmet is not None else ""
    return f"namespace {quoted(namespace, limit=40)} is not managed by sluice{wanted}"
