"""Values of fields as a line of the history says them: of bounded length, different where the values are."""

from __future__ import annotations

from queues.apimachinery.quantities import format_quantity
from queues.node_groups import NodeGroups
from queues.queue import Amounts
from queues.text import printable
from queues.windows.stops import joined_lines

#: Lines of up to so many characters are written as the plugin's flags take them.
_SHORT = 320


def amounts_line(amounts: Amounts | None) -> str:
    """`cpu=4,memory=8Gi`, as a flag has it; "" for none."""
    parts = [f"{printable(name)}={format_quantity(amount, name)}" for name, amount in amounts or ()]
    text = ",".join(parts)
    return text if len(text) <= _SHORT else joined_lines(parts)


def node_groups_line(groups: NodeGroups | None) -> str:
    """`required a,b; avoided c`; "" where the field is absent, and `any` where it is empty."""
    if groups is None:
        return ""
    lists = {
        "required": groups.required,
        "preferred": groups.preferred,
        "excluded": groups.excluded,
        "avoided": groups.avoided,
    }
    return joined_lines([f"{kind} {','.join(names)}" for kind, names in lists.items() if names]) or "any"
