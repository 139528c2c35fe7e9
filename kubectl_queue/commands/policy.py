"""policy: list, show, check and explain scheduling policies.

Promises
- `check` asks no server, and ends with exit code 1 if there is a fault.
- What a part of a policy does is said in the words of `queues.policies.effects`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kubectl_queue.cli.flag_values import quoted
from kubectl_queue.cli.flags import Flags, checked_name
from kubectl_queue.cli.options import NO_HEADERS, Output, formats
from kubectl_queue.cli.spelling import close_matches, did_you_mean
from kubectl_queue.commands.verbs import Verb
from kubectl_queue.errors import ForbiddenError, QueueError, UsageError
from kubectl_queue.objects.fields import spec_of
from kubectl_queue.objects.types import POD
from kubectl_queue.output.formats import DOCUMENTS, dump
from kubectl_queue.output.tables import TableLayout
from kubectl_queue.policies.config_map import (
    FLAGS,
    ClusterPolicies,
    checked_policy_name,
    place_of,
    read_cluster_policies,
)
from kubectl_queue.policies.explainer import PolicyExplainer, PolicyExplanation, parse_target
from kubectl_queue.policies.manifest_check import FILE_LIMIT, FileCheck, ManifestFinding, check_policies
from kubectl_queue.session import Session
from queues.policies.parts import PolicyPart, policy_parts, scorers
from queues.policies.policy_report import misplaced_text
from queues.policies.policy_set import GLOBAL_KEY, KEYS_LIMIT, PolicyEntry
from queues.policies.scheduler_conf import examine_policy
from queues.text import printable

_COMMAND = "kubectl queue policy"
_HEADINGS = ("NAME", "ACTIONS", "SCORES", "QUEUES", "STATUS")
_NONE, _UNKNOWN = "<none>", "<unknown>"
_STDIN = "-"
_STATUS_LIMIT = 200
_WIDTH = 10


def run_policy(session: Session, flags: Flags) -> int:
    if not flags.names:
        raise UsageError(f"say what to do: {', '.join(_RUN)}", see=_COMMAND)
    action, *words = flags.names
    if action not in _RUN:
        suggestions = did_you_mean(close_matches(action.lower(), _RUN))
        raise UsageError(f'unknown command {quoted(action)} for "{_COMMAND}"{suggestions}', see=_COMMAND)
    return _RUN[action](session, flags, tuple(words))


# list


def _list(session: Session, flags: Flags, words: tuple[str, ...]) -> int:
    if words:
        raise UsageError(f"list takes no names; to see one: {_COMMAND} show NAME", see=_COMMAND)
    cluster = _read(session, flags)
    users = _queues_by_policy(session)
    rows = [_row(entry, users) for entry in cluster.policies.entries.values()]
    missing = sorted((users or {}).keys() - {entry.name for entry in cluster.policies.entries.values()})
    rows += [_missing_row(name, users or {}) for name in missing]
    if session.output in DOCUMENTS:
        place = {"namespace": cluster.place.namespace, "name": cluster.place.name, "exists": cluster.exists}
        session.console.say(dump({"configMap": place, "policies": rows}, output=session.output))
    elif rows:
        cells = [_cells(row) for row in rows]
        shown = cells if flags.on("no-headers") else [_HEADINGS, *cells]
        session.console.say("\n".join(line.rstrip() for line in TableLayout().lines(shown)))
    if not cluster.exists:
        session.console.note(f"there is no {cluster.place}: no policy counts")
    elif not rows:
        session.console.note(f"{cluster.place} has no policies: no policy counts")
    for key in cluster.policies.misplaced[:1]:
        session.console.note(misplaced_text(key))
    return 0


def _queues_by_policy(session: Session) -> Mapping[str, int] | None:
    """How many queues name each policy; None where queues may not be listed."""
    try:
        items = session.api.list().items
    except ForbiddenError:
        session.console.warn("you may not list queues: how many name a policy is not known")
        return None
    named = (spec_of(item).get("schedulerPolicy") for item in items)
    return Counter(name for name in named if isinstance(name, str) and name)


def _row(entry: PolicyEntry, users: Mapping[str, int] | None) -> dict[str, Any]:
    row: dict[str, Any] = {"name": entry.name, "ok": entry.problem is None}
    if users is not None and entry.name != GLOBAL_KEY:
        row["queues"] = users.get(entry.name, 0)
    if entry.policy is not None:
        row |= {"actions": list(entry.policy.actions), "scores": list(scorers(entry.policy))}
        notices = examine_policy(entry.text).notices if entry.problem is None else entry.policy.warnings
        row["warnings"] = [msgspec.to_builtins(place) for place in notices]
    if entry.problem is not None:
        row |= {"line": entry.problem.line, "reason": entry.problem.reason}
    return row


def _missing_row(name: str, users: Mapping[str, int]) -> dict[str, Any]:
    if name == GLOBAL_KEY:
        reason = "no queue may name the global policy; the next in the order counts"
    else:
        reason = "queues name it, and it is not there; the next in the order counts"
    return {"name": name, "ok": False, "queues": users[name], "reason": reason}


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    count = "all others" if row["name"] == GLOBAL_KEY else str(row.get("queues", _UNKNOWN))
    return (
        printable(row["name"]),
        ", ".join(row.get("actions", ())) or _NONE,
        ", ".join(row.get("scores", ())) or _NONE,
        count,
        _status(row),
    )


def _status(row: Mapping[str, Any]) -> str:
    if not row["ok"]:
        place = f"line {row['line']}: " if "line" in row else ""
        return printable(place + str(row["reason"]), limit=_STATUS_LIMIT)
    warnings = len(row["warnings"])
    return f"OK, {_counted(warnings, 'warning')}" if warnings else "OK"


# show


def _show(session: Session, flags: Flags, words: tuple[str, ...]) -> int:
    if len(words) != 1:
        raise UsageError(f"show takes one NAME, got {len(words)}", see=_COMMAND)
    name = checked_policy_name(words[0])
    cluster = _read(session, flags)
    entry = cluster.policies.entries.get(name)
    if entry is None:
        near = did_you_mean(close_matches(name, cluster.policies.entries)).rstrip("\n")
        has = "is not there" if not cluster.exists else f"has no policy {quoted(name)}"
        raise QueueError(f"{cluster.place} {has}{near or f'; see: {_COMMAND} list'}")
    examination = examine_policy(entry.text)
    parts = policy_parts(entry.policy) if entry.policy is not None else ()
    faults, warnings = list(map(str, examination.faults)), list(map(str, examination.ignored))
    if session.output in DOCUMENTS:
        document = {
            "name": name,
            "configMap": {"namespace": cluster.place.namespace, "name": cluster.place.name},
            "parts": msgspec.to_builtins(parts),
            "faults": msgspec.to_builtins(examination.faults),
            "warnings": msgspec.to_builtins(examination.ignored),
        }
        session.console.say(dump(document, output=session.output))
    else:
        summary = f"policy {quoted(name)} of {cluster.place}"
        if faults:
            summary += f" cannot be used: {_counted(len(faults), 'fault')}"
        lines = [summary, *_part_lines(parts), *_section("Faults", faults), *_section("Ignored", warnings)]
        session.console.say("\n".join(lines))
    return 1 if faults else 0


def _part_lines(parts: Sequence[PolicyPart]) -> Iterator[str]:
    """The actions, then the plugins tier by tier."""
    layout = TableLayout()
    groups: dict[str, list[PolicyPart]] = {}
    for part in parts:
        groups.setdefault(f"Tier {part.tier}" if part.tier else "Actions", []).append(part)
    every = iter(layout.lines([(part.name, f"{part.effect}: {part.text}") for part in parts]))
    for heading, of_group in groups.items():
        yield from _section(heading, [next(every) for _ in of_group])


def _section(heading: str, body: Sequence[str]) -> Iterator[str]:
    for number, line in enumerate(body):
        head = f"{heading}:" if number == 0 else ""
        yield f"{head:<{_WIDTH}}{line}".rstrip()


# check


def _check(session: Session, flags: Flags, words: tuple[str, ...]) -> int:
    if len(words) != 1:
        raise UsageError(f"check takes one FILE, or {_STDIN} for stdin; got {len(words)}", see=_COMMAND)
    path = words[0]
    place = place_of(flags, command=_COMMAND)
    found = check_policies(_content(session, path), name=place.name, namespace=place.namespace)
    shown = "<stdin>" if path == _STDIN else path
    if session.output in DOCUMENTS:
        document = {
            "file": shown,
            "policies": list(found.policies),
            "faults": [finding._asdict() for finding in found.faults],
            "warnings": [finding._asdict() for finding in found.warnings],
        }
        session.console.say(dump(document, output=session.output))
    else:
        session.console.say("\n".join(_check_lines(shown, found)))
    return 1 if found.faults else 0


def _content(session: Session, path: str) -> str:
    """The text of the file. Raises QueueError."""
    try:
        if path == _STDIN:
            return session.console.read_input(limit=FILE_LIMIT)
        with Path(path).open(encoding="utf-8-sig") as file:
            return file.read(FILE_LIMIT)
    except UnicodeDecodeError as exc:
        raise QueueError(f"{path}: not UTF-8: {exc.reason} at byte {exc.start}") from exc
    except (OSError, ValueError) as exc:  # ValueError: a NUL in the path
        raise QueueError(f"{path}: {getattr(exc, 'strerror', None) or exc}") from exc


def _check_lines(file: str, found: FileCheck) -> Iterator[str]:
    findings = sorted(
        [*((finding, "") for finding in found.faults), *((one, "warning: ") for one in found.warnings)],
        key=lambda pair: (pair[0].line, pair[1] != ""),
    )
    for finding, kind in findings:
        yield f"{file}:{finding.line}: {kind}{_finding(finding)}"
    counts = [
        _counted(len(found.policies), "policy", "policies"),
        _counted(len(found.faults), "fault"),
        _counted(len(found.warnings), "warning"),
    ]
    yield f"{file}: {', '.join(counts)}"


def _finding(finding: ManifestFinding) -> str:
    return f"policy {quoted(finding.policy)}: {finding.text}" if finding.policy else finding.text


def _counted(count: int, singular: str, plural: str = "") -> str:
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


# explain


def _explain(session: Session, flags: Flags, words: tuple[str, ...]) -> int:
    target = parse_target(words, command=_COMMAND)
    namespace = checked_name(session.namespace, see=_COMMAND) if target.type is POD else ""
    cluster = _read(session, flags)
    explanation = PolicyExplainer(session, cluster, namespace=namespace).explain(target)
    if session.output in DOCUMENTS:
        session.console.say(dump(msgspec.to_builtins(explanation), output=session.output))
    else:
        session.console.say("\n".join(lines(explanation)))
    return 0


def lines(explanation: PolicyExplanation) -> list[str]:
    """The first line is the whole answer; the lines below it give the details."""
    return [
        explanation.summary,
        *_section("Queue", [explanation.queue] if explanation.kind == POD.kind and explanation.queue else []),
        *_section("Tried", explanation.tried),
        *_part_lines(explanation.parts),
        *_section("Ignored", explanation.warnings),
        *_section("Note", explanation.notes),
    ]


def _read(session: Session, flags: Flags) -> ClusterPolicies:
    cluster = read_cluster_policies(session.client, place_of(flags, command=_COMMAND))
    if cluster.unread:
        session.console.warn(
            f"{cluster.place} has {cluster.unread} policies more than the {KEYS_LIMIT:,} that are read, in "
            "alphabetical order"
        )
    return cluster


_RUN: Mapping[str, Callable[[Session, Flags, tuple[str, ...]], int]] = {
    "list": _list,
    "show": _show,
    "check": _check,
    "explain": _explain,
}


VERBS = (
    Verb(
        name="policy",
        usage="list | show NAME | check FILE | explain QUEUE | explain pod/NAME",
        long=(
            "Scheduling policies: keys of a ConfigMap in Volcano's format, which queues and jobs name. "
            "`list` shows all: their actions, the plugins that score nodes, how many queues name each, and "
            "what is wrong with it. `show` says what each part of a policy does here. `check` names every "
            "fault of a file (- is stdin): a manifest or a part of one, Helm's values, the text of one "
            "policy; with its line, what is ignored, and what does nothing here; it asks no server and ends "
            "with 1 if there is a fault. `explain` says which policy a "
            "queue or a pod has, who names it, what was tried and cannot be used, and what each part of it "
            "does there, or why it does nothing."
        ),
        examples=(
            "kubectl queue policy list",
            "kubectl queue policy show packed",
            "kubectl queue policy check manifests/examples/policies/policies.yaml",
            "kubectl queue policy explain research",
            "kubectl queue policy explain pod/train-0 -n research -o yaml",
        ),
        flags=(*FLAGS, formats(Output.TABLE, Output.JSON, Output.YAML), NO_HEADERS),
        run=run_policy,
        tells_outage=False,
    ),
)
