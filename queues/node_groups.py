"""The node groups of a queue (`spec.affinity`), and the node affinity that its new pods get for them.

A node is in the group that its label `volcano.sh/nodegroup-name` names, or in none. Of the queues on a pod's
chain the nearest that has the field counts, alone: `affinity: {}` gives its pods all nodes again.

| `spec.affinity` of the queue                   | its pods                                                 |
|------------------------------------------------|----------------------------------------------------------|
| `nodeGroupAffinity` required                   | run in these groups alone, and in those that are         |
|                                                | preferred on either side                                 |
| the same, preferred                            | run there rather than elsewhere                          |
| `nodeGroupAntiAffinity` required               | never run there, unless it is preferred there too        |
| the same, preferred                            | run there only where nothing else has room               |

Of several the later row counts. Nodes of no group are like a group that nobody names.

| the pod's own required terms      | after                                                                 |
|-----------------------------------|-----------------------------------------------------------------------|
| none                              | one: the groups                                                       |
| several (any may hold)            | each of them, and the groups                                          |
| an empty one (holds for no node)  | stays as it is                                                        |

Invariants
- A pod only comes to fewer nodes: its own terms hold as before.
- What the pod has already is not added again: admission may be called several times for one request.

Source: Volcano's plugin `nodegroup` and its design document (`docs/design/node-group.md`). Where a queue
requires no group, the plugin differs from its document: it then lets pods run in no group but those that are
preferred. Here they run as the document, and the names of the fields, say. The plugin refuses nodes of no
group to every pod; here only queues that require a group do. Volcano inherits where `enableHierarchy` is set.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from queues.apimachinery.label_selectors import LABEL_VALUE

#: The label of a node that names its group.
LABEL = "volcano.sh/nodegroup-name"
#: Names of one list. Each pod of the queue has them in its spec, and kube-scheduler compares them with nodes.
NAMES_LIMIT = 64
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
#: Weights of preferred terms, in the plugin's proportions: of what is required beside what is only allowed,
#: of what is preferred, and of what is not to be avoided.
_REQUIRED_WEIGHT, _PREFERRED_WEIGHT, _UNAVOIDED_WEIGHT = 100, 50, 50
#: No node has a label and lacks it.
_NOWHERE = [{"key": LABEL, "operator": "Exists"}, {"key": LABEL, "operator": "DoesNotExist"}]

_Object = dict[str, Any]


class NodeGroups(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Names of groups, sorted, each once. `is_bound`: its pods run in no other groups (`allowed`)."""

    is_bound: bool = False
    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()

    @property
    def allowed(self) -> tuple[str, ...]:
        """Where its pods may run, if it is bound."""
        wanted = {*self.required, *self.preferred}.difference(self.excluded)
        return tuple(sorted(wanted.union(self.avoided)))

    @property
    def is_nowhere(self) -> bool:
        """Whether its pods may run on no node, whatever nodes there are."""
        return self.is_bound and not self.allowed

    @property
    def refused(self) -> tuple[str, ...]:
        """Where they may not."""
        return tuple(name for name in self.excluded if name not in self.avoided)


def read_node_groups(value: Any) -> NodeGroups | None:
    """Read `spec.affinity`; None where there is none. A name that no label can have is that of no node."""
    if not isinstance(value, dict):
        return None
    wanted, unwanted = _object(value.get("nodeGroupAffinity")), _object(value.get("nodeGroupAntiAffinity"))
    return NodeGroups(
        is_bound=bool(wanted.get(REQUIRED)),
        required=_names(wanted.get(REQUIRED)),
        preferred=_names(wanted.get(PREFERRED)),
        excluded=_names(unwanted.get(REQUIRED)),
        avoided=_names(unwanted.get(PREFERRED)),
    )


def nowhere_warning(before: NodeGroups | None, after: NodeGroups | None) -> str:
    """The admission warning for an edit of a Queue whose groups exclude each other; "" for any other."""
    if after is None or not after.is_nowhere or after == before:
        return ""
    return "spec.affinity excludes each node group that it requires: new pods of this queue run nowhere"


def with_node_groups(affinity: Any, groups: NodeGroups) -> _Object:
    """The affinity of a pod that is in a queue with these groups; the same where they say nothing."""
    before = _object(affinity)
    node_affinity = dict(_object(before.get("nodeAffinity")))
    expressions, preferences = _requirements(groups), _preferences(groups)
    if expressions:
        required = _object(node_affinity.get(REQUIRED))
        terms = required.get("nodeSelectorTerms")
        written = terms if isinstance(terms, list) and terms else [{"matchExpressions": expressions}]
        narrowed = [_narrowed(term, expressions) for term in written]
        node_affinity[REQUIRED] = {**required, "nodeSelectorTerms": narrowed}
    if preferences:
        node_affinity[PREFERRED] = _joined(node_affinity.get(PREFERRED), preferences)
    return {**before, "nodeAffinity": node_affinity} if expressions or preferences else before


def _requirements(groups: NodeGroups) -> list[_Object]:
    if groups.is_bound:
        return _NOWHERE if groups.is_nowhere else [_among("In", groups.allowed)]
    return [_among("NotIn", groups.refused)] if groups.refused else []


def _preferences(groups: NodeGroups) -> list[_Object]:
    """Nothing where all nodes that are left would get the same."""
    required, preferred = (
        tuple(name for name in names if name not in (*groups.avoided, *groups.excluded))
        for names in (groups.required, groups.preferred)
    )
    terms = []
    if groups.is_bound and required and set(required) != set(groups.allowed):
        terms.append((_REQUIRED_WEIGHT, _among("In", required)))
    if preferred:
        terms.append((_PREFERRED_WEIGHT, _among("In", preferred)))
    if groups.avoided and not groups.is_bound:
        terms.append((_UNAVOIDED_WEIGHT, _among("NotIn", groups.avoided)))
    return [
        {"weight": weight, "preference": {"matchExpressions": [expression]}} for weight, expression in terms
    ]


def _among(operator: str, names: Iterable[str]) -> _Object:
    return {"key": LABEL, "operator": operator, "values": list(names)}


def _narrowed(term: Any, expressions: list[_Object]) -> Any:
    if not _asks_anything(term):
        return term
    return {**term, "matchExpressions": _joined(term.get("matchExpressions"), expressions)}


def _asks_anything(term: Any) -> bool:
    """Whether a term asks for anything of a node; one that does not holds for none."""
    return isinstance(term, dict) and bool(term.get("matchExpressions") or term.get("matchFields"))


def _joined(before: Any, added: list[_Object]) -> list[Any]:
    have = before if isinstance(before, list) else []
    return [*have, *(each for each in added if each not in have)]


def _names(value: Any) -> tuple[str, ...]:
    names = value if isinstance(value, list) else []
    return tuple(sorted({name for name in names if isinstance(name, str) and _is_label_value(name)}))


def _is_label_value(name: str) -> bool:
    return len(name) <= 63 and LABEL_VALUE.fullmatch(name) is not None


def _object(value: Any) -> _Object:
    return value if isinstance(value, dict) else {}
