"""What is wrong with the scheduling policies of a file, and what of them is ignored, with the file's lines.

| the file                                   | what is checked                                              |
|--------------------------------------------|--------------------------------------------------------------|
| is a mapping without `kind`, or no mapping | the file is the text of one policy                           |
| has ConfigMaps, alone or in a List         | each key of those of the policies' name; where none has that |
|                                            | name, of all of them                                         |
| has no ConfigMap                           | nothing: a fault                                             |

Promises
- A line is one of the file. Where a text is no literal block (`|`), its lines are not lines of the file: then
  it is the line where the text begins, and the finding says which line of the text it means.
- Needs no cluster. Of a file, `FILE_LIMIT` characters are read at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import yaml

from queues.policies.model import Place
from queues.policies.policy_set import KEYS_LIMIT
from queues.policies.scheduler_conf import BadPolicy, examine_policy
from queues.text import printable

#: More than a ConfigMap of 1 MiB takes in any encoding of its text.
FILE_LIMIT = 8 << 20
_KINDS_SHOWN = 5
_DEPTH_LIMIT = 64


class Finding(NamedTuple):
    """`policy`: the key; empty where the file itself or a text that is a file of its own is meant."""

    line: int
    policy: str
    text: str


class FileCheck(NamedTuple):
    """All of a file, by line. `policies`: the names of those that were checked; "" for a text alone."""

    policies: Sequence[str]
    faults: Sequence[Finding]
    warnings: Sequence[Finding]


def check_policies(content: str, *, name: str) -> FileCheck:
    """Check a file's content. `name`: of the ConfigMap that has the policies."""
    try:
        documents = _documents(content)
    except BadPolicy as exc:
        return FileCheck([], [Finding(exc.place.line, "", exc.place.reason)], [])
    if _scalar(documents[0], "kind") is None:
        return _checked([("", examine_text(content))])
    objects = [each for document in documents for each in _objects(document)]
    config_maps = [each for each in objects if _scalar(each, "kind") == "ConfigMap"]
    if not config_maps:
        kinds = sorted({str(_scalar(each, "kind")) for each in objects})[:_KINDS_SHOWN]
        reason = f"there is no ConfigMap in it, but {', '.join(kinds)}; a policy is a key of a ConfigMap"
        return FileCheck([], [Finding(1, "", printable(reason, limit=400))], [])
    named = [each for each in config_maps if _scalar(_value(each, "metadata"), "name") == name]
    return _check_config_maps(named or config_maps)


def _documents(content: str) -> list[yaml.Node]:
    """Raises `BadPolicy`; its line is one of the file."""
    if len(content) >= FILE_LIMIT:
        raise BadPolicy(1, f"the file is longer than {FILE_LIMIT:,} characters")
    try:
        _check_depth(content)
        documents = [
            node for node in yaml.compose_all(content, Loader=yaml.CSafeLoader) if not _is_empty(node)
        ]
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 1 if exc.problem_mark else 1
        raise BadPolicy(line, f"not YAML: {exc.problem}") from exc
    except (yaml.YAMLError, ValueError) as exc:  # ValueError: a number that YAML has not
        raise exc if isinstance(exc, BadPolicy) else BadPolicy(1, f"not YAML: {exc}") from exc
    if not documents:
        raise BadPolicy(1, "the file is empty")
    return documents


def _is_empty(node: yaml.Node | None) -> bool:
    return node is None or node.tag == "tag:yaml.org,2002:null"


def _check_depth(content: str) -> None:
    """Raises `BadPolicy`: to compose what is nested too deep would end the process."""
    depth = 0
    for event in yaml.parse(content, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEPTH_LIMIT:
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise BadPolicy(line, f"values are nested deeper than {_DEPTH_LIMIT}")


class _Findings(NamedTuple):
    faults: list[Place]
    warnings: list[Place]


def examine_text(text: str, *, node: yaml.ScalarNode | None = None) -> _Findings:
    """Findings with the lines of the file. `node`: the text in the file; None where it is the file."""
    examination = examine_policy(text)
    return _Findings(
        [_in_file(place, text, node) for place in examination.faults],
        [_in_file(place, text, node) for place in examination.warnings],
    )


def _in_file(place: Place, text: str, node: yaml.ScalarNode | None) -> Place:
    if node is None:
        return place
    start = node.start_mark.line + 1
    if node.style == "|":
        return Place(start + place.line, place.reason)
    return Place(start, f"line {place.line} of the text: {place.reason}" if "\n" in text else place.reason)


def _check_config_maps(nodes: Sequence[yaml.Node]) -> FileCheck:
    results: list[tuple[str, _Findings]] = []
    empty: list[Finding] = []
    for node in nodes:
        data = _value(node, "data")
        if isinstance(data, yaml.MappingNode) and data.value:
            results += _check_data(data)
        else:
            empty.append(Finding(node.start_mark.line + 1, "", "the ConfigMap has no data, so no policy"))
    return _checked(results, warnings=empty)


def _check_data(data: yaml.MappingNode) -> Iterator[tuple[str, _Findings]]:
    seen: set[str] = set()
    for key, value in data.value:
        name, line = printable(str(key.value), limit=253), key.start_mark.line + 1
        if not isinstance(value, yaml.ScalarNode) or value.tag != "tag:yaml.org,2002:str":
            reason = "its value is no text; write the policy below it, after a |"
            yield name, _Findings([Place(line, reason)], [])
            continue
        findings = examine_text(value.value, node=value)
        if name in seen:
            findings.faults.append(Place(line, "the key is there twice, and only one of them is kept"))
        seen.add(name)
        if len(seen) == KEYS_LIMIT + 1:
            findings.faults.append(Place(line, f"there are more keys than the {KEYS_LIMIT:,} that are read"))
        yield name, findings


def _checked(results: Sequence[tuple[str, _Findings]], *, warnings: Sequence[Finding] = ()) -> FileCheck:
    faults = [Finding(place.line, name, place.reason) for name, all_ in results for place in all_.faults]
    more = [Finding(place.line, name, place.reason) for name, all_ in results for place in all_.warnings]
    return FileCheck([name for name, _ in results], sorted(faults), sorted([*warnings, *more]))


def _objects(node: yaml.Node) -> Iterator[yaml.Node]:
    """The objects of a document: itself, or the items of a List."""
    items = _value(node, "items")
    if _scalar(node, "kind") == "List" and isinstance(items, yaml.SequenceNode):
        yield from items.value
    else:
        yield node


def _value(node: yaml.Node | None, field: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for key, value in node.value if key.value == field), None)


def _scalar(node: yaml.Node | None, field: str) -> str | None:
    value = _value(node, field)
    return str(value.value) if isinstance(value, yaml.ScalarNode) else None
