"""The answers for prioritize calls: scores by a policy, and where the pod is assumed to go.

Invariants
- Nothing of it exists while no policy scores: no watch, no table, no numpy (`cluster.scoring.reflectors`).
- Until nodes and pods have been read, every node gets the same level: kube-scheduler decides alone.
- A pod is assumed on the node that got the only 10, from the answer until it is seen on a node or seen to be
  gone, a new attempt to schedule it begins, or the time has passed that the caller sets. Where nodes are
  equal, one of them is chosen for a pod that is assumed: which of them kube-scheduler would take could not be
  known, and the next pod would be scored as if none had been used. A pod that is not assumed leaves that to
  kube-scheduler.
- The table is read by the thread of the request, without waiting for a reflector.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from cluster.scoring.objects import ScoredPod
from queues.policies.model import Policy
from queues.scoring.levels import levels_with_choice
from queues.scoring.node_table import NodeTable
from queues.scoring.preferences import LabelsByNamespace
from queues.scoring.requests import ScoringRequest
from queues.scoring.total import Scorer

#: Assumptions of pods that the cache of members does not know yet, at a time; anybody may make up such pods.
UNKNOWN_LIMIT = 5_000


class NodeScoring:
    def __init__(
        self,
        *,
        namespace_labels: LabelsByNamespace,
        monotonic: Callable[[], float],
        random_source: random.Random | None = None,
    ) -> None:
        self.table = NodeTable()
        self._monotonic = monotonic
        self._random = random_source or random.Random()  # noqa: S311 - a choice among equals, no secret
        self._namespace_labels = namespace_labels
        self._threads = threading.local()
        #: When the assumptions of unknown pods end.
        self._unknown_until: deque[float] = deque()

    def may_assume_unknown(self, *, seconds: float) -> bool:
        """Whether one more pod that is not known yet may be assumed on a node, for so long; counts it."""
        now, ends = self._monotonic(), self._unknown_until
        with suppress(IndexError):  # another thread may take the last one
            while ends[0] <= now:
                ends.popleft()
        if len(ends) >= UNKNOWN_LIMIT:
            return False
        ends.append(now + seconds)
        return True

    def levels(
        self,
        policy: Policy,
        nodes: Sequence[str],
        pod: ScoredPod,
        request: ScoringRequest,
        *,
        assumed_seconds: float,
    ) -> Sequence[int]:
        """A level from 0 to 10 for each node. `request`: the pod's.

        `assumed_seconds`: for so long the pod is assumed on the only node that gets 10, if it is known; 0: it
        is not.
        """
        now = self._monotonic()
        self.table.expire(now)
        if assumed_seconds:
            self.table.drop_assumption(pod.metadata.uid)
        placement = pod.placement()
        scores = self._scorer().scores(policy, nodes, request, placement)
        levels, chosen = levels_with_choice(scores, self._random.randrange if assumed_seconds else None)
        if chosen >= 0 and self.table.has_node(nodes[chosen]):
            until = now + assumed_seconds
            self.table.assume_pod(pod.metadata.uid, nodes[chosen], request, placement, until=until)
        return levels

    def drop_assumption(self, uid: str) -> None:
        """The pod did not go where it was assumed: it is tried anew, or never will be bound."""
        self.table.drop_assumption(uid)

    def _scorer(self) -> Scorer:
        scorer: Scorer | None = getattr(self._threads, "scorer", None)
        if scorer is None:
            scorer = self._threads.scorer = Scorer(self.table, namespace_labels=self._namespace_labels)
        return scorer
