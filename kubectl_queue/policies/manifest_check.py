"""What is wrong with the scheduling policies of a file, and what of them has no effect, with the file's
lines.

| a document of the file                     | what is checked                                              |
|--------------------------------------------|--------------------------------------------------------------|
| has `actions` or `tiers` on top            | it is the text of one policy                                 |
| is no mapping, and the only one            | the same, with its fault                                     |
| is a ConfigMap, alone or in a List         | each key that holds a policy (`queues.policies.policy_set`), |
|                                            | of those of the policies' name; where none has that name, of |
|                                            | all of them, with a warning                                  |
| has no `kind`, such as Helm's values or a  | each text in it that holds a policy, under its path, such as |
| part of a manifest                         | that of the value `scheduler_config_override`                |
| is another object, such as a HelmRelease   | the same                                                     |

A text that is YAML with Helm's values is looked into, too: that is how Argo CD and k3s have them. A file with
no policy at all is a fault.

Promises
- A line is one of the file. Where a text is no literal block (`|`), its lines are not lines of the file: then
  it is the line where the text begins, and the finding says which line of the text it means.
- Needs no cluster. Of a file, `FILE_LIMIT` characters are read at most.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import yaml

from queues.apimachinery.yaml_events import yaml_events
from queues.policies.model import PolicyProblemLine
from queues.policies.policy_report import misplaced_text
from queues.policies.policy_set import GLOBAL_KEY, KEYS_LIMIT, holds_policy, misplaced_keys
from queues.policies.scheduler_conf import BadPolicy, examine_policy
from queues.text import printable, quoted

#: More than a ConfigMap of 1 MiB takes in any encoding of its text.
FILE_LIMIT = 8 << 20
_KINDS_SHOWN = 5
#: A value of Volcano's chart: the text of its policy.
_OVERRIDE = "scheduler_config_override"
_SEE_CHART = "check what helm template writes"
_TEMPLATE_HINT = "; a template of Helm has to be rendered first: helm template"
_COUNTS_NOT = f"for queues that name no policy, the one under {GLOBAL_KEY} counts"
_DEPTH_LIMIT = 64


class ManifestFinding(NamedTuple):
    """`policy`: the key; empty where the file itself or a text that is a file of its own is meant."""

    line: int
    policy: str
    text: str


class FileCheck(NamedTuple):
    """All of a file, by line. `policies`: the names of those that were checked; "" for a text alone."""

    policies: Sequence[str]
    faults: Sequence[ManifestFinding]
    warnings: Sequence[ManifestFinding]


def check_policies(content: str, *, name: str, namespace: str = "") -> FileCheck:
    """Check a file's content. `name`, `namespace`: of the ConfigMap that has the policies."""
    try:
        documents = _documents(content)
        return _check_documents(content, documents, name=name, namespace=namespace)
    except BadPolicy as exc:
        return FileCheck([], [ManifestFinding(exc.place.line, "", exc.place.reason)], [])


def _check_documents(content: str, documents: Sequence[yaml.Node], *, name: str, namespace: str) -> FileCheck:
    """Raises `BadPolicy` where there is nothing to check."""
    if len(documents) == 1 and not isinstance(documents[0], yaml.MappingNode):
        return _checked([("", examine_text(content))])
    objects = [each for document in documents for each in _objects(document)]
    named = {id(each) for each in objects if _is_config_map(each) and _name(each) == name}
    results: list[tuple[str, _Findings]] = []
    more: list[ManifestFinding] = []
    for each in objects:
        if _is_config_map(each):
            if id(each) in named or not named:
                results += _check_config_map(each, more)
                more += _where_it_is(each, name=name, namespace=namespace)
        elif _is_policy(each):
            results.append(("", _in_document(content, each, alone=len(documents) == 1)))
        else:
            results += _check_texts(each, line=0)
            more += _chart_values(each)
    if not results and not more:
        raise BadPolicy(1, _no_policy(objects))
    return _checked(results, warnings=more)


def _is_config_map(node: yaml.Node) -> bool:
    return _scalar(node, "kind") == "ConfigMap"


def _name(node: yaml.Node) -> str | None:
    return _scalar(_value(node, "metadata"), "name")


def _no_policy(objects: Sequence[yaml.Node]) -> str:
    kinds = sorted({str(kind) for each in objects if (kind := _scalar(each, "kind"))})[:_KINDS_SHOWN]
    among = f", but {', '.join(kinds)}" if kinds else ""
    return printable(
        f"there is no policy in it{among}; a policy has actions and tiers, and is a key of a ConfigMap, a "
        "text of Helm's values, or a file of its own",
        limit=400,
    )


def _is_policy(node: yaml.Node) -> bool:
    return _scalar(node, "kind") is None and any(
        _value(node, key) is not None for key in ("actions", "tiers")
    )


def _in_document(content: str, node: yaml.Node, *, alone: bool) -> _Findings:
    """The findings of a document that is the text of a policy."""
    if alone:
        return examine_text(content)
    text = content[node.start_mark.index : node.end_mark.index]
    indent = " " * node.start_mark.column
    first = node.start_mark.line
    return _Findings(
        *(
            [PolicyProblemLine(first + place.line, place.reason) for place in places]
            for places in examine_text(indent + text)
        )
    )


def _where_it_is(node: yaml.Node, *, name: str, namespace: str) -> Iterator[ManifestFinding]:
    """A warning where the server reads another ConfigMap."""
    metadata, line = _value(node, "metadata"), node.start_mark.line + 1
    its_name, its_namespace = _scalar(metadata, "name"), _scalar(metadata, "namespace")
    if its_name != name or (namespace and its_namespace and its_namespace != namespace):
        place = f"{namespace}/{name}" if namespace else name
        its = f"{its_namespace}/{its_name}" if its_namespace else str(its_name)
        reason = f"the ConfigMap is {its}; the server reads {place} unless its settings name another one"
        yield ManifestFinding(line, "", printable(reason, limit=400))


def _chart_values(node: yaml.Node) -> Iterator[ManifestFinding]:
    """What values of Volcano's chart say of a policy that is not in them: the chart's own one counts, or they
    choose a file whose key is not that of the global policy.
    """
    for path, value in _scalars(node):
        if path[-1] == _OVERRIDE and _is_empty(value):
            empty = f"{'.'.join(path)} is empty, so the chart's own policy counts; {_SEE_CHART}"
            yield ManifestFinding(value.start_mark.line + 1, "", printable(empty, limit=400))
        if path[-1] == "scheduler_config_file":
            key = str(value.value).rsplit("/", 1)[-1]
            if key != GLOBAL_KEY:
                reason = (
                    f"{'.'.join(path)} has the chart put its policy under key {quoted(key)}; {_COUNTS_NOT}"
                )
                yield ManifestFinding(value.start_mark.line + 1, "", printable(reason, limit=400))


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
        hint = _TEMPLATE_HINT if "{{" in content else ""
        raise BadPolicy(line, f"not YAML: {exc.problem}{hint}") from exc
    except (yaml.YAMLError, ValueError) as exc:  # ValueError: a number that YAML has not
        raise exc if isinstance(exc, BadPolicy) else BadPolicy(1, f"not YAML: {exc}") from exc
    if not documents:
        raise BadPolicy(1, "the file is empty")
    return documents


def _is_empty(node: yaml.Node | None) -> bool:
    return node is None or node.tag == "tag:yaml.org,2002:null"


def _check_depth(content: str) -> None:
    """Raises `BadPolicy`."""
    for line, depth, _ in yaml_events(content):
        if depth > _DEPTH_LIMIT:
            raise BadPolicy(line, f"values are nested deeper than {_DEPTH_LIMIT}")


class _Findings(NamedTuple):
    faults: list[PolicyProblemLine]
    warnings: list[PolicyProblemLine]


def examine_text(text: str, *, node: yaml.ScalarNode | None = None) -> _Findings:
    """Findings with the lines of the file. `node`: the text in the file; None where it is the file."""
    examination = examine_policy(text)
    return _Findings(
        [_in_file(place, text, node) for place in examination.faults],
        [_in_file(place, text, node) for place in examination.notices],
    )


def _in_file(place: PolicyProblemLine, text: str, node: yaml.ScalarNode | None) -> PolicyProblemLine:
    if node is None:
        return place
    start = node.start_mark.line + 1
    if node.style == "|":
        return PolicyProblemLine(start + place.line, place.reason)
    return PolicyProblemLine(
        start, f"line {place.line} of the text: {place.reason}" if "\n" in text else place.reason
    )


def _check_config_map(node: yaml.Node, more: list[ManifestFinding]) -> Iterator[tuple[str, _Findings]]:
    """The findings by key. `more`: gets what concerns no key."""
    line = node.start_mark.line + 1
    held: list[str] = []
    seen: set[str] = set()
    for field in ("data", "binaryData"):
        data = _value(node, field)
        for key, value in data.value if isinstance(data, yaml.MappingNode) else ():
            name, at = printable(str(key.value), limit=253), key.start_mark.line + 1
            findings = _of_key(name, value, at, is_binary=field == "binaryData")
            if findings is None:
                continue
            held.append(name)
            if name in seen:
                findings.faults.append(
                    PolicyProblemLine(at, "the key is there twice, and only one of them is kept")
                )
            seen.add(name)
            if len(seen) == KEYS_LIMIT + 1:
                findings.faults.append(
                    PolicyProblemLine(at, f"there are more policies than the {KEYS_LIMIT:,} that are read")
                )
            yield name, findings
    if not held:
        more.append(ManifestFinding(line, "", "no key of the ConfigMap holds a policy"))
    more += [ManifestFinding(line, "", misplaced_text(key)) for key in misplaced_keys(held)[:1]]


def _of_key(name: str, value: yaml.Node, line: int, *, is_binary: bool) -> _Findings | None:
    """None where the key is somebody else's."""
    if not isinstance(value, yaml.ScalarNode) or value.tag != "tag:yaml.org,2002:str":
        if not (name == GLOBAL_KEY or _is_policy(value)):
            return None
        return _Findings(
            [PolicyProblemLine(line, "its value is no text; write the policy below it, after a |")], []
        )
    text = str(value.value)
    if is_binary:
        try:
            text = base64.b64decode(text, validate=False).decode(errors="replace")
        except binascii.Error as exc:
            return _Findings([PolicyProblemLine(line, f"its value in binaryData is no base64: {exc}")], [])
    if name != GLOBAL_KEY and not holds_policy(text):
        return None
    if not is_binary:
        return examine_text(text, node=value)
    return _Findings(
        *(
            [PolicyProblemLine(line, f"line {place.line} of the text: {place.reason}") for place in places]
            for places in examine_text(text)
        )
    )


def _check_texts(node: yaml.Node, *, line: int) -> Iterator[tuple[str, _Findings]]:
    """The findings in each text of an object that holds a policy, by its path. `line`: of the file, before
    it.
    """
    for path, value in _scalars(node):
        text = str(value.value)
        if holds_policy(text) or path[-1] == GLOBAL_KEY:
            name = GLOBAL_KEY if path[-1] == GLOBAL_KEY else ".".join(path[1:] if path[0] == "data" else path)
            faults, warnings = examine_text(text, node=value)
            moved = (
                [PolicyProblemLine(line + place.line, place.reason) for place in all_]
                for all_ in (faults, warnings)
            )
            yield printable(name, limit=253), _Findings(*moved)
        elif _OVERRIDE in text and not line:
            try:
                inner = _documents(text)
            except BadPolicy:
                continue
            if isinstance(value, yaml.ScalarNode) and value.style == "|":
                for document in inner:
                    yield from _check_texts(document, line=value.start_mark.line + 1)


def _scalars(node: yaml.Node) -> Iterator[tuple[tuple[str, ...], yaml.ScalarNode]]:
    """The scalars of an object, each with the keys that lead to it; one that has several aliases comes
    once.
    """
    seen: set[int] = set()

    def walk(each: yaml.Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], yaml.ScalarNode]]:
        if id(each) in seen:
            return
        seen.add(id(each))
        if isinstance(each, yaml.MappingNode):
            for key, value in each.value:
                yield from walk(value, (*path, str(key.value)))
        elif isinstance(each, yaml.SequenceNode):
            for number, item in enumerate(each.value):
                yield from walk(item, (*path, str(number)))
        elif isinstance(each, yaml.ScalarNode) and path:
            yield path, each

    yield from walk(node, ())


def _checked(
    results: Sequence[tuple[str, _Findings]], *, warnings: Sequence[ManifestFinding] = ()
) -> FileCheck:
    faults = [
        ManifestFinding(place.line, name, place.reason) for name, all_ in results for place in all_.faults
    ]
    more = [
        ManifestFinding(place.line, name, place.reason) for name, all_ in results for place in all_.warnings
    ]
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
