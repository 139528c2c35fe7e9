"""What queues with a selector on their chain decide for the members of each namespace, worked out once.

Invariants
- An answer is remembered for one ruling and one map of labels, both by identity: a queue or a namespace that
  changed has another, so an answer never outlives what it was worked out from.
- A question about what is remembered is one look-up, however large the selectors are.
- At most `REMEMBERED` answers are kept; beyond, all are worked out anew.
Threads: any; each operation is one on a dict.
"""

from __future__ import annotations

from collections.abc import Mapping

from queues.snapshot import QueueDecision, decision_for_namespace

REMEMBERED = 50_000

Labels = Mapping[str, str]


class NamespaceAccess:
    """The answers by queue and namespace."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str], tuple[QueueDecision, Labels | None, QueueDecision]] = {}

    def ruling_for(self, ruling: QueueDecision, *, namespace: str, labels: Labels | None) -> QueueDecision:
        """What `ruling` is for the members of the namespace; `labels` is None where they are not known."""
        key = (ruling.queue, namespace)
        known = self._answers.get(key)
        if known is not None and known[0] is ruling and known[1] is labels:
            return known[2]
        answer = decision_for_namespace(ruling, namespace=namespace, labels=labels)
        if len(self._answers) >= REMEMBERED:
            self._answers.clear()
        self._answers[key] = (ruling, labels, answer)
        return answer
