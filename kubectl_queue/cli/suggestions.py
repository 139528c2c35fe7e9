"""Suggestions for misspelt verbs, names and types of objects: "Did you mean this?"

Promises
- A word that other tools use for a verb gets that verb: the nearest spelling may mean the opposite (`remove`
  is near `resume`, `unsuspend` near `suspend`).
- Else only words that exist and differ by little are suggested.
- So are types of objects: `deplyoment/web`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from kubectl_queue.access.client import Queues
from kubectl_queue.access.responses import refusal
from kubectl_queue.cli.spelling import close_matches, did_you_mean, near_kinds
from kubectl_queue.errors import NotFoundError, QueueError

#: Words that other tools and people use for our verbs.
_OTHERS: Mapping[str, str] = {
    word: verb
    for verb, words in {
        "list": "ls show",
        "get": "describe status view",
        "tree": "hierarchy",
        "create": "add apply make new",
        "open": "reopen unclose enable",
        "close": "disable shut",
        "suspend": "halt park pause",
        "drain": "empty evict",
        "resume": "continue release restart start unhold unpause unpark unstop unsuspend",
        "delete": "del destroy remove rm",
        "why": "explain reason",
        "policy": "policies scheduler-policy schedulerpolicy",
        "windows": "window calendar schedule schedules",
        "history": "changes events log logs",
    }.items()
    for word in words.split()
}
#: Words for what kubectl itself does with any object, such as edit.
_KUBECTL: Mapping[str, str] = {
    word: f"kubectl {command} queue"
    for command, words in {
        "edit": "change configure edit modify update",
        "patch": "patch limit set",
        "label": "label",
        "annotate": "annotate",
    }.items()
    for word in words.split()
}


def suggested_verbs(word: str, verbs: Iterable[str]) -> list[str]:
    """The verbs that a word may stand for, the likeliest first."""
    if word.lower() in _KUBECTL:
        return [_KUBECTL[word.lower()]]
    known = list(verbs)
    other = _OTHERS.get(word.lower())
    return [other] if other in known else close_matches(word.lower(), known)


def similar_kinds(word: str, name: str, *, command: str = "") -> str:
    """Asks whether the object NAME of one of these types was meant. `command`: stands before it."""
    start = f"{command} " if command else ""
    return did_you_mean(f"{start}{kind}/{name}" for kind in near_kinds(word)).rstrip("\n")


@contextmanager
def with_suggestions(api: Queues, name: str) -> Iterator[None]:
    """Adds to a NotFoundError the queues whose names are near this one, where queues may be listed."""
    try:
        yield
    except NotFoundError as exc:
        with suppress(QueueError):
            exc.add_note(similar_names(name, (item["metadata"]["name"] for item in api.list().items)))
        raise


def queue_not_found(name: str, *, among: Iterable[str]) -> QueueError:
    """The API server's error for a queue that does not exist, with the names that are near."""
    message = f'queues.scheduling.volcano.sh "{name}" not found'
    error = refusal({"reason": "NotFound", "message": message, "details": {"name": name}}, code=404)
    error.add_note(similar_names(name, among))
    return error


def similar_names(name: str, among: Iterable[str]) -> str:
    return did_you_mean(close_matches(name, among)).rstrip("\n")
