"""Objects in the text of a file: YAML with any number of documents, or JSON; Lists are taken apart.

Promises
- Raises `BadManifest` alone, with the line where there is one.
- No more than `FILE_LIMIT` characters are read. What is nested too deep is refused: YAML deeper than
  `DEPTH_LIMIT`, JSON deeper than its parser goes.
- Anchors are refused: a few lines of them can stand for any number of objects.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml

from queues.apimachinery.yaml_events import yaml_events
from queues.text import printable

#: Ten thousand ClusterQueues, as `kubectl get -o yaml` prints them.
FILE_LIMIT = 64 << 20
DEPTH_LIMIT = 64


class BadManifest(ValueError):
    """The text holds no objects; the message is for who wrote it."""


def read_objects(content: str) -> list[Any]:
    """Each object, whatever it is; the items of Lists in place of the Lists."""
    if len(content) >= FILE_LIMIT:
        raise BadManifest(f"it is longer than {FILE_LIMIT:,} characters; convert it in parts")
    documents = _json(content) if content.lstrip()[:1] in ("{", "[") else _yaml(content)
    objects = [each for document in documents for each in _items(document)]
    if not objects:
        raise BadManifest("there are no objects in it")
    return objects


def _json(content: str) -> list[Any]:
    """One value; else YAML, of which JSON is nearly a part."""
    try:
        return [json.loads(content)]
    except RecursionError as exc:
        raise BadManifest("values are nested too deep") from exc
    except ValueError:
        return _yaml(content)


def _yaml(content: str) -> list[Any]:
    try:
        _check_events(content)
        return list(yaml.load_all(content, Loader=yaml.CSafeLoader))
    except yaml.MarkedYAMLError as exc:
        line = f"line {exc.problem_mark.line + 1}: " if exc.problem_mark else ""
        raise BadManifest(f"{line}not YAML: {printable(str(exc.problem))}") from exc
    except (yaml.YAMLError, ValueError, OverflowError) as exc:  # ValueError: a number that YAML has not
        raise (
            exc if isinstance(exc, BadManifest) else BadManifest(f"not YAML: {printable(str(exc))}")
        ) from exc


def _check_events(content: str) -> None:
    """Raises `BadManifest`."""
    for line, depth, event in yaml_events(content):
        if depth > DEPTH_LIMIT:
            raise BadManifest(f"line {line}: values are nested deeper than {DEPTH_LIMIT}")
        if isinstance(event, yaml.AliasEvent):
            raise BadManifest(
                f"line {line}: anchors are not read; write the file without them: "
                "kubectl apply --dry-run=client -o yaml -f FILE"
            )


def _items(document: Any) -> Iterator[Any]:
    """Empty documents are none."""
    if isinstance(document, list):
        yield from document
    elif isinstance(document, dict) and isinstance(document.get("items"), list):
        yield from (_typed(item, document) for item in document["items"])
    elif document is not None:
        yield document


def _typed(item: Any, parent: dict[str, Any]) -> Any:
    """The items of a ClusterQueueList may say no kind."""
    kind = str(parent.get("kind", "")).removesuffix("List")
    if isinstance(item, dict) and kind and not item.get("kind"):
        return {"apiVersion": parent.get("apiVersion"), "kind": kind, **item}
    return item
