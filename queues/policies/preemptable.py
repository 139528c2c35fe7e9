"""Whether a pod may be evicted for others: `volcano.sh/preemptable`, as Volcano reads it.

| where it is written                        | then                                        |
|--------------------------------------------|---------------------------------------------|
| annotation of the pod                      | that counts                                 |
| else label of the pod                      | that counts                                 |
| else annotation, else label of its PodGroup | that counts                                 |
| nowhere                                    | it may be evicted                           |

| its value                                        | means                    |
|--------------------------------------------------|--------------------------|
| `1`, `t`, `T`, `true`, `True`, `TRUE`            | the pod may be evicted   |
| `0`, `f`, `F`, `false`, `False`, `FALSE`         | it may not               |
| anything else, also "" and ` false`              | it may not               |

Source: Volcano's `pkg/scheduler/api/pod_info.go`, which reads the pod alone, and Go's ParseBool.
"""

from __future__ import annotations

from collections.abc import Mapping

from queues.apimachinery.booleans import parse_bool
from queues.metadata.keys import PREEMPTABLE


def preemptable_in(annotations: Mapping[str, str] | None, labels: Mapping[str, str] | None) -> bool | None:
    """What one object says; None where it says nothing."""
    for written in (annotations, labels):
        value = (written or {}).get(PREEMPTABLE)
        if value is not None:
            return parse_bool(value) is True
    return None
