"""YAML as events, for what has to be known before values are built. To build what is nested too deep would
end the process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import yaml


class YamlEvent(NamedTuple):
    """`line`: from 1. `depth`: how many lists and mappings are open after the event."""

    line: int
    depth: int
    event: yaml.Event


def yaml_events(text: str) -> Iterator[YamlEvent]:
    """The events of all documents, as they are read. Raises what PyYAML's parser raises."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        yield YamlEvent(event.start_mark.line + 1 if event.start_mark else 1, depth, event)
