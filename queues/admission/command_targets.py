"""The target of a Command: whether it is for us to answer, and whether it names a queue that we can act on.

| `target`                                                        | whose it is                     |
|-----------------------------------------------------------------|---------------------------------|
| kind Queue of `scheduling.volcano.sh`, with a queue's name      | ours; it is carried out         |
| absent, or without a kind                                       | nobody's; we refuse it          |
| `queue`, `queues` or `q` in any case, or Queue of another group | meant for a queue; we refuse it |
| any other kind, such as `batch.volcano.sh` Jobs                 | not ours; it is left alone      |

What we refuse at admission and is stored all the same, since no webhook was asked, is dropped with an event.
"""

from __future__ import annotations

from queues.membership import valid_name
from queues.messages import NAME_RULE
from queues.text import printable

GROUP, KIND = "scheduling.volcano.sh", "Queue"
_MEANT = frozenset({"", "queue", "queues", "q"})
_HOW = f"use kind: {KIND}, apiVersion: {GROUP}/v1beta1"
#: Characters of a value that are shown.
_SHOWN = 80


def is_ours(kind: str) -> bool:
    """Whether a Command with this kind of target is for us; it is empty where there is no target."""
    return kind.lower() in _MEANT


def target_refusal(*, api_version: str, kind: str, name: str) -> str | None:
    """Why no queue can be acted on for this target, which is ours."""
    if not kind:
        return f"target: names no kind; for a queue {_HOW}"
    if kind != KIND:
        return f'target.kind: "{printable(kind, limit=_SHOWN)}" is not a kind that Commands act on; {_HOW}'
    if _group(api_version) != GROUP:
        return f'target.apiVersion: "{printable(api_version, limit=_SHOWN)}" has no queues; {_HOW}'
    if not valid_name(name):
        return f'target.name: "{printable(name, limit=_SHOWN)}" is not the name of a queue; {NAME_RULE}'
    return None


def _group(api_version: str) -> str:
    return api_version.partition("/")[0]
