"""Whether the queue that a namespace names binds what is submitted to it.

Without this the queue of a namespace is a default: whoever may create a pod there names another queue,
`default` among them, and the pod runs while the namespace's queue is stopped. In a namespace that is bound
(setting `binding_namespaces`, annotation `sluice.dev/binding` on the namespace) only the queue of the
namespace and those below it may be named.

| annotation `sluice.dev/binding` | the setting is off | the setting is on |
|---------------------------------|--------------------|-------------------|
| absent, or empty                | not bound          | bound             |
| `true`                          | bound              | bound             |
| `false`                         | not bound          | not bound         |
| anything else                   | refused            | refused           |

A namespace that names no queue is never bound. Another word that is stored all the same, since the webhook
was not asked, binds.

Invariants
- It is asked of what is submitted alone. What is stored is judged by its queue and by nothing else: an
  annotation that comes or goes stops no pod and lets none go.
- What names no queue is in the queue of the namespace, and never refused by this.
- What is below the queue is what the tree says at that moment. Of a queue that does not exist nothing is
  known to be above it, so it may not be named, unless the namespace names it.
- An admitted edit of the namespace that binds counts at once on the replica that admitted it; one that ends
  the binding counts once it is stored. A replica that hears of a binding later answers as before it: what it
  admits meanwhile counts as having been there. Where the setting is on, what names a queue in a namespace
  that a replica does not know yet is answered with "try again", as what names none is in any case.

What happens in a bound namespace to what is in another queue than its own and those below:

| what                                                  | what happens                                     |
|-------------------------------------------------------|--------------------------------------------------|
| a new pod, workload or PodGroup, however it is named  | is refused, also in `default` and `root`         |
| a PodGroup without a queue, or in `default`           | gets the queue of the namespace, bound or not    |
| a pod whose PodGroup does not exist                   | waits for it; the PodGroup is refused            |
| a workload or an empty PodGroup moved to the queue    | is refused; it stays where it is                 |
| a pod or a workload that was there                    | goes on, and starts whenever its queue lets it   |
| a roll-out of such a workload                         | is admitted; a warning says that stops miss it   |
| a pod that a controller makes for such a workload     | is admitted                                      |
| a pod that a user makes for a PodGroup that was there | is refused                                       |
| more replicas, from none, or by an autoscaler         | are refused: they are new work                   |
| a Job that a CronJob makes                            | is refused: it is new work                       |
| the namespace, when it comes to be bound              | is admitted; a warning says what stays, if any   |

Who may end the binding is who may update the namespace. ClusterRoles `edit` and `admin`, given in the
namespace, do not include that.
"""

from __future__ import annotations

from collections.abc import Mapping

from queues.text import quoted
from queues.tree import Tree
from queues.well_known import BINDING

_WORDS: Mapping[str, bool] = {"true": True, "false": False}


def binds(annotation: str, *, setting: bool) -> bool:
    """Whether a namespace that names a queue is bound to it. `annotation`: the value, empty if absent."""
    return _WORDS.get(annotation, True) if annotation else setting


def annotation_fault(annotation: str) -> str:
    """Why this is no value of the annotation; "" if it is one."""
    if not annotation or annotation in _WORDS:
        return ""
    shown = quoted(annotation, limit=40)
    return f'metadata.annotations[{BINDING}]: {shown} is not known; use one of "true", "false"'


def may_name(queue: str, *, bound_to: str, tree: Tree) -> bool:
    """Whether the queue may be named in a namespace that is bound to the queue `bound_to`."""
    return queue == bound_to or (
        queue in tree and any(above.name == bound_to for above in tree.chain(queue).queues)
    )


def binding_refusal(queue: str, *, bound_to: str, namespace: str) -> str:
    """Why what names the queue is refused, what may be named, and who can change that."""
    return (
        f"namespace {quoted(namespace, limit=80)} is bound to queue {quoted(bound_to, limit=80)}, and queue "
        f"{quoted(queue, limit=80)} is neither that nor below it; name no queue, or one of those; "
        f"users who may update the namespace can end that (annotation {BINDING})"
    )


def no_queue_warning() -> str:
    """The admission warning for a namespace with the annotation that names no queue."""
    return f"annotation {BINDING} has no effect: this namespace names no queue"


def passing_warning(queue: str, *, bound_to: str) -> str:
    """The admission warning for a roll-out of work that was there when its namespace came to be bound."""
    return (
        f"this stays in queue {quoted(queue, limit=18)}: stops of queue {quoted(bound_to, limit=18)}, which "
        "binds its namespace, miss it"
    )


def staying_warning(pods: Mapping[str, int], *, bound_to: str, tree: Tree) -> str:
    """The admission warning for a namespace that comes to be bound; "" where it has no pod of another queue.

    `pods`: its live pods by queue.
    """
    others = {
        queue: count for queue, count in pods.items() if not may_name(queue, bound_to=bound_to, tree=tree)
    }
    if not others:
        return ""
    first, total = min(others), sum(others.values())
    stay = "1 pod stays" if total == 1 else f"{total} pods stay"
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    return f"{stay} in queue {quoted(first, limit=30)}{more}: only what is new is bound, and stops miss them"
