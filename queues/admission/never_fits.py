"""Whether a pod can ever have room in the capabilities of its chain; if not, its user is told at submission.

Such a pod is admitted and waits: the capability may be raised. Its condition says so, too.
"""

from __future__ import annotations

from queues.apimachinery.pod_requests import Requests
from queues.apimachinery.quantities import format_quantity
from queues.messages import WARNING_LIMIT
from queues.quota.devices import SharedCounts, no_claims
from queues.quota.lack import Lack, LackKind
from queues.quota.usage import limits_of, never_lack, quota_requests
from queues.text import quoted
from queues.tree import Tree

#: Characters to which a name is cut, where the warning has no room for all of it.
_SHORTEST = 7
#: The same for a gang, beside the key that asks for it.
_SHORT = 14


def never_fits_warning(
    queue: str, requests: Requests, *, tree: Tree, claims: SharedCounts = no_claims, template: bool = False
) -> str:
    """The admission warning for a pod that requests more than a capability of its chain; "" where it fits.

    `requests`: without the pod itself. `claims`: what those of devices count that are among them. `template`:
    of a workload, whose pods request this.
    """
    requested = quota_requests(requests)
    chain = tree.chain(queue) if queue in tree else None
    if chain is None or chain.broken is not None:
        return ""
    lack = never_lack(limits_of(chain), requested, claims=claims)
    if lack is None:
        return ""
    if lack.kind is LackKind.DEVICES:
        return _devices_text(lack, template=template)
    allowed = dict(tree.queues[lack.queue].capability or ())[lack.resource]
    return _text(
        lack,
        asked=format_quantity(allowed + lack.missing, lack.resource),
        allowed=format_quantity(allowed, lack.resource),
        template=template,
    )


def gang_never_fits(
    queue: str, requests: Requests, *, least: int, tree: Tree, claims: SharedCounts = no_claims
) -> str:
    """Why so many pods never have room together, in a chain with room for one; "" where they may.

    `requests`, `claims`: of one of them, as above.
    """
    chain = tree.chain(queue) if queue in tree else None
    if chain is None or chain.broken is not None:
        return ""
    requested, limits = quota_requests(requests), limits_of(chain)
    lack = never_lack(limits, tuple((name, amount * least) for name, amount in requested), claims=claims)
    if lack is None or lack.kind is LackKind.DEVICES or never_lack(limits, requested, claims=claims):
        return ""
    allowed = dict(tree.queues[lack.queue].capability or ())[lack.resource]
    asked = format_quantity(allowed + lack.missing, lack.resource)
    what = f"{quoted(lack.resource, limit=_SHORT)[1:-1]} {asked}"
    of = f"{format_quantity(allowed, lack.resource)} of queue {quoted(lack.queue, limit=_SHORT)}"
    return f"{least} pods request {what}, and capability is {of}"


def _devices_text(lack: Lack, *, template: bool) -> str:
    what, it = ("its pods wait", "they claim") if template else ("this waits", "it claims")
    queue, resource = quoted(lack.queue, limit=20), quoted(lack.resource, limit=30)[1:-1]
    return f"{what}: {it} devices that cannot be counted, and queue {queue} limits {resource}"


def _text(lack: Lack, *, asked: str, allowed: str, template: bool) -> str:
    what, each = ("its pods wait", "each") if template else ("this waits", "it")

    def text(limit: int) -> str:
        queue, resource = quoted(lack.queue, limit=limit), quoted(lack.resource, limit=limit)[1:-1]
        return f"{what}: {each} requests {resource} {asked}, more than capability {allowed} of queue {queue}"

    spare = WARNING_LIMIT - len(text(1)) + 2
    shorter = min(len(lack.queue), len(lack.resource))
    return text(max(_SHORTEST, spare // 2, spare - shorter))
