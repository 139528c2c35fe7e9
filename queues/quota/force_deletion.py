"""How long a pod counts on that was deleted by force: its containers may run on though it is gone.

A pod on a node that is deleted with a grace period of 0 is gone from the API server at once, whatever grace
period its spec has. Its node ends it then, and gives it that period all the same.

| a pod that is gone                                  | counts on                                           |
|-----------------------------------------------------|-----------------------------------------------------|
| had no node                                         | not at all: nothing runs                            |
| was Succeeded or Failed                             | not at all: its node has ended it and said so, or   |
|                                                     | the garbage collector has, since its node is gone   |
| else                                                | for the grace period of its spec, an hour at most   |

A node may take two seconds more to kill it, which do not count (`docs/limits.md`).

Sources: kubelet gives a pod a final phase before it deletes it (Kubernetes 1.27 and later), as the garbage
collector of pods does. Its pod workers take the grace period of the spec where that of the deletion is 0.
"""

from __future__ import annotations

#: A tenant may write years into a spec. What runs for longer than that without its pod is not counted.
LONGEST_SECONDS = 3600.0


def seconds_counted(*, node: str, is_finished: bool, grace_seconds: float) -> float:
    """For how long a pod counts that is gone now. `grace_seconds`: of its spec."""
    if not node or is_finished:
        return 0.0
    return min(max(0.0, grace_seconds), LONGEST_SECONDS)
