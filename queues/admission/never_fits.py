"""Whether a pod can ever have room in the capabilities of its chain; if not, its user is told at submission.

Such a pod is admitted and waits: the capability may be raised. Its condition says so, too.
"""

from __future__ import annotations

from queues.apimachinery.quantities import format_quantity
from queues.messages import WARNING_LIMIT
from queues.quota.lack import Lack, LackKind
from queues.quota.usage import Requests, limits_of, never_lack, quota_requests
from queues.text import quoted
from queues.tree import Tree

#: Characters to which a name is cut, where the warning has no room for all of it.
_SHORTEST = 7


def never_fits_warning(queue: str, requests: Requests, *, tree: Tree, template: bool = False) -> str:
    """The admission warning for a pod that requests more than a capability of its chain; "" where it fits.

    `requests`: without the pod itself. `template`: of a workload, whose pods request this.
    """
    requested = quota_requests(requests)
    chain = tree.chain(queue) if queue in tree else None
    lack = never_lack(limits_of(chain), requested) if chain is not None and chain.broken is None else None
    if lack is None:
        return ""
    if lack.kind is LackKind.DEVICES:
        return _devices_text(lack, template=template)
    asked = dict(requested)[lack.resource]
    return _text(
        lack,
        asked=format_quantity(asked, lack.resource),
        allowed=format_quantity(asked - lack.missing, lack.resource),
        template=template,
    )


def _devices_text(lack: Lack, *, template: bool) -> str:
    what, it = ("its pods wait", "they claim") if template else ("this waits", "it claims")
    queue, resource = quoted(lack.queue, limit=20), quoted(lack.resource, limit=30)[1:-1]
    return f"{what}: {it} devices, and queue {queue} limits {resource}: what is claimed is not known"


def _text(lack: Lack, *, asked: str, allowed: str, template: bool) -> str:
    what, each = ("its pods wait", "each") if template else ("this waits", "it")

    def text(limit: int) -> str:
        queue, resource = quoted(lack.queue, limit=limit), quoted(lack.resource, limit=limit)[1:-1]
        return f"{what}: {each} requests {resource} {asked}, more than capability {allowed} of queue {queue}"

    spare = WARNING_LIMIT - len(text(1)) + 2
    shorter = min(len(lack.queue), len(lack.resource))
    return text(max(_SHORTEST, spare // 2, spare - shorter))
