"""Shell completion: `kubectl queue resume <TAB>` offers the queues that can be resumed.

kubectl runs `kubectl_complete-queue` from PATH with the words of the command line after `queue`; the last one
is the word to complete, and may be empty. It prints a candidate on each line, with a description after a tab,
and at the end the directive of cobra, the library of kubectl's command lines: `:4` that no file names are
meant, `:6` nor a space after the word, `:0` that file names are
(https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/).

Promises
- A queue is offered after a verb only where that verb would change it, by the verb's own rules.
- It asks the API server once, for two seconds at most, and only where queues are to be offered.
- Where anything fails there are no candidates. Nothing is printed on stderr: the user is in the middle of a
  line.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from kubectl_queue.cli import flags
from kubectl_queue.cli.flags import Flag, Flags
from kubectl_queue.cli.options import COMMON
from kubectl_queue.commands import verbs
from kubectl_queue.errors import QueueError
from kubectl_queue.output.console import Console
from kubectl_queue.session import Session

if TYPE_CHECKING:
    from kubectl_queue.edit.operation import Operation
    from kubectl_queue.objects.fields import Object
    from kubectl_queue.objects.queues import QueueObjects

#: Reads all queues, as the flags of access on the command line say. Raises QueueError.
ReadQueues = Callable[[Flags], "QueueObjects"]
FILES, NO_FILES, NO_SPACE = ":0", ":4", ":6"
#: For the API server: the user waits for the shell.
_TIMEOUT = "--request-timeout=2s"
#: Verbs that show queues: any of them, or none, may be named.
_SHOWING = frozenset({"get", "tree", "usage", "reclaim", "why", "history"})
#: The words after `windows`, beside a queue.
_WINDOWS = {
    "start": "Undo a skip, or begin the next occurrence now.",
    "skip": "Leave out the occurrence that is on, or the next one.",
    "extend": "End it later.",
}
#: The words after `policy`.
_POLICY = {
    "list": "Show all scheduling policies.",
    "show": "Say what each part of a policy does.",
    "check": "Name the faults of a file.",
    "explain": "Say which policy counts for a queue or a pod.",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the candidates for the last word; always 0."""
    words = list(sys.argv[1:] if argv is None else argv)
    lines = [NO_FILES]
    # Whatever it is: an error message would stand in the middle of the user's line.
    with suppress(Exception):
        lines = completions(words, read_queues=_read_queues)
    with suppress(BrokenPipeError):
        print("\n".join(lines), flush=True)
    return 0


def _read_queues(given: Flags) -> QueueObjects:
    """All queues, from the API server that the flags choose."""
    from kubectl_queue.access.queue_reader import read_queues  # noqa: PLC0415 - for queues alone

    console = Console(io.StringIO(), io.StringIO())
    with Session(given, console=console, environ=os.environ) as session:
        return read_queues(session.api, ())


def completions(words: Sequence[str], *, read_queues: ReadQueues) -> list[str]:
    """The lines to print. `words`: all after `kubectl queue`, the one to complete last."""
    *before, last = words or [""]
    with suppress(QueueError):
        return [*_candidates(before, last, read_queues=read_queues)]
    return [NO_FILES]


def _candidates(before: Sequence[str], last: str, *, read_queues: ReadQueues) -> Iterator[str]:
    place = flags.first_name(before, COMMON)
    name = before[place] if place >= 0 else ""
    own = verbs.load(name).flags if name in verbs.TABLE else ()
    asked = _flag_to_fill(before, last, (*own, *COMMON))
    if asked is not None:
        flag, prefix = asked
        yield from _values(flag, last, prefix, before, own, read_queues=read_queues)
    elif last.startswith("-"):
        forms = [*_matching(last, {_form(flag): flag.help for flag in (*own, *COMMON)})]
        yield from forms
        yield NO_SPACE if [form.partition("\t")[0][-1] for form in forms] == ["="] else NO_FILES
    elif place < 0:
        yield from _matching(last, {verb: row.short for verb, row in verbs.TABLE.items()})
        yield NO_FILES
    elif name == "policy":
        yield from _policy_words([*before[:place], *before[place + 1 :]], last, own, read_queues=read_queues)
    elif name == "windows":
        yield from _window_words([*before[:place], *before[place + 1 :]], last, own, read_queues=read_queues)
        yield NO_FILES
    elif name in verbs.TABLE:
        given = _read([*before[:place], *before[place + 1 :]], own)
        yield from _queue_names(given, name, last, read_queues=read_queues)
        yield NO_FILES
    else:
        yield NO_FILES


def _flag_to_fill(before: Sequence[str], last: str, known: Sequence[Flag]) -> tuple[Flag, str] | None:
    """The flag whose value is to be completed, and what stands before the value in the word."""
    if last.startswith("--") and "=" in last:
        name = last[2:].partition("=")[0]
        flag = next((each for each in known if each.name == name), None)
        return (flag, f"--{name}=") if flag else None
    word = before[-1] if before else ""
    for flag in known:
        if flag.bare is None and word in {f"--{flag.name}", f"-{flag.short}"} and word != "-":
            return flag, ""
    return None


def _values(
    flag: Flag, last: str, prefix: str, before: Sequence[str], own: Sequence[Flag], *, read_queues: ReadQueues
) -> Iterator[str]:
    """The words of a flag that takes a few, the queues of --parent, files of one that takes a file."""
    if flag.name == "parent":
        given = _read(before[:-1] if not prefix else before, own)
        yield from _queue_names(given, "get", last, read_queues=read_queues, prefix=prefix)
    elif "|" in flag.value:
        yield from _matching(last, {prefix + word: "" for word in flag.value.split("|")})
    yield FILES if flag.value == "FILE" else NO_FILES


def _policy_words(
    before: Sequence[str], last: str, own: Sequence[Flag], *, read_queues: ReadQueues
) -> Iterator[str]:
    given = _read(before, own)
    if not given.names:
        yield from _matching(last, _POLICY)
    elif given.names[0] == "explain":
        yield from _queue_names(given, "get", last, read_queues=read_queues)
    yield FILES if given.names[:1] == ("check",) else NO_FILES


def _window_words(
    before: Sequence[str], last: str, own: Sequence[Flag], *, read_queues: ReadQueues
) -> Iterator[str]:
    """What is done, and queues; after a word for what is done the queues that have windows, then these."""
    given = _read(before, own)
    if not given.names:
        yield from _matching(last, _WINDOWS)
        yield from _queue_names(given, "get", last, read_queues=read_queues)
        return
    word, *rest = given.names
    if word not in _WINDOWS or len(rest) > 1:
        return
    from kubectl_queue.objects.fields import spec_of  # noqa: PLC0415 - for queues alone
    from queues.windows.reader import read_windows  # noqa: PLC0415
    from queues.windows.stops import what_it_sets  # noqa: PLC0415

    windows = {
        name: read_windows(spec_of(item)).windows for name, item in sorted(read_queues(given).items.items())
    }
    if rest:
        chosen = windows.get(rest[0].rpartition("/")[2], ())
        yield from _matching(last, {window.name: what_it_sets(window) for window in chosen})
    else:
        shown = {name: ", ".join(each.name for each in its) for name, its in windows.items() if its}
        yield from _matching(last, shown)


def _form(flag: Flag) -> str:
    """A flag that needs a value is completed up to it."""
    return f"--{flag.name}" if flag.bare is not None else f"--{flag.name}="


def _read(words: Sequence[str], own: Sequence[Flag]) -> Flags:
    return flags.parse([*words, _TIMEOUT], (*own, *COMMON), command="")


def _matching(last: str, words: Mapping[str, str]) -> Iterator[str]:
    for word, help in words.items():
        if word.startswith(last):
            yield f"{word}\t{help}" if help else word


def _queue_names(
    given: Flags, verb: str, last: str, *, read_queues: ReadQueues, prefix: str = ""
) -> Iterator[str]:
    """The queues that the verb would change, but those that stand on the line already."""
    if verb not in _SHOWING and verb not in _edits() and verb != "delete":
        return
    from kubectl_queue.objects.fields import name_of, status_of  # noqa: PLC0415 - for queues alone

    queues = read_queues(given)
    named = {word.rpartition("/")[2] for word in given.names}
    shown = {
        prefix + name_of(item): _description(status_of(item).get("state"), queues, item)
        for item in _fitting(verb, queues)
        if name_of(item) not in named
    }
    yield from _matching(last, dict(sorted(shown.items())))


def _description(state: object, queues: QueueObjects, item: Object) -> str:
    from kubectl_queue.objects.fields import name_of, spec_of  # noqa: PLC0415

    reason = str(spec_of(item).get("reason") or "")
    policy = queues.tree.queues[name_of(item)].stop_policy_at(queues.now)
    parts = [str(state or "Unknown"), *([policy.value] if policy.strictness else [])]
    text = ", ".join(parts) + (f" ({reason})" if reason else "")
    return "".join(character if character.isprintable() else " " for character in text)[:60]


def _fitting(verb: str, queues: QueueObjects) -> Iterable[Object]:
    if verb in _SHOWING:
        return queues.items.values()
    return [item for item in queues.items.values() if _changes(verb, item, queues)]


def _changes(verb: str, item: Object, queues: QueueObjects) -> bool:
    """Whether the verb would change this queue, and may."""
    from kubectl_queue.commands.delete import refusal  # noqa: PLC0415
    from kubectl_queue.objects.fields import name_of  # noqa: PLC0415

    name = name_of(item)
    if verb == "delete":
        return not refusal(name, queues)
    operation = _edits()[verb]
    with suppress(QueueError):
        decision = operation.decide(item=item, queues=queues)
        return bool(decision.patch) and not decision.refusal and not operation.refusal(name)
    return False


def _edits() -> Mapping[str, Operation]:
    """What the verbs that edit queues do without flags."""
    from kubectl_queue.edit.action_operation import ActionOperation  # noqa: PLC0415
    from kubectl_queue.edit.stop_policy_operation import StopPolicyOperation  # noqa: PLC0415
    from queues.states import Action, StopPolicy  # noqa: PLC0415

    drain = StopPolicyOperation(policy=StopPolicy.HOLD_AND_DRAIN)
    return {
        **{action.name.lower(): ActionOperation(action=action) for action in Action},
        "hold": StopPolicyOperation(policy=StopPolicy.HOLD),
        "drain": drain,
        "stop": drain,
    }
