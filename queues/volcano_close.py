"""Which queues Volcano had closed before Sluice came.

Volcano keeps a close in `status.state` alone, and Sluice derives the status from the spec: without this rule
such a queue would be Open once Sluice starts. It is read as Closed, by each replica and by the plugin, and
the leader writes that into its spec, once (`controller.stops.adopted_close`).

| the queue                                                    | is read as           |
|--------------------------------------------------------------|----------------------|
| has `spec.state`                                             | its spec says        |
| has a condition or an `observedGeneration` in its status     | Open: we wrote that  |
| is `root`, which cannot be closed                            | Open                 |
| was closed with its parent (Volcano's annotation says so)    | Open; the parent is  |
|                                                              | Closed, and opens it |
| else: its status says Closed or Closing                      | Closed               |

Invariants
- Admission writes `spec.state` where a queue is created without it, or an edit takes it away. So no edit of a
  user's is undone, also where Volcano's scheduler overwrites what we write into a status.
- Who may write the status of queues, as Volcano's parts do, may close a queue that has no `spec.state`.
- Volcano's scheduler takes our conditions away. Beside it a queue without `spec.state` may be read as Closed
  by itself while a queue above it is: a close too many, which is said, rather than one lost in silence.
"""

from __future__ import annotations

from collections.abc import Mapping

from queues.queue import ROOT
from queues.states import State

#: On a queue that Volcano closed with its parent, and opens with it (its queue_controller_action.go).
CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"

_CLOSED = frozenset({State.CLOSED, State.CLOSING})


def is_closed_by_volcano(
    name: str,
    *,
    spec_state: object,
    status_state: object,
    is_ours: bool,
    annotations: Mapping[str, str] | None,
) -> bool:
    """The table of the module. `is_ours`: whether the status has what only Sluice writes."""
    return (
        spec_state is None
        and status_state in _CLOSED
        and not is_ours
        and name != ROOT
        and (annotations or {}).get(CLOSED_BY_PARENT) != "true"
    )
