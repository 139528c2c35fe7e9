"""Events on the ConfigMap with the scheduling policies: what is wrong with them, and what of them has no
effect.

Each line of `queues.policies.policy_report` is recorded once for one ConfigMap, again if it was gone
meanwhile, and by each new leader.
"""

from __future__ import annotations

from controller.context import ControllerContext
from controller.events import POLICY_KEY
from queues.policies.policy_report import PolicyLine


class PolicyEvents:
    """Owner: the controller's thread."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._recorded: frozenset[tuple[str, PolicyLine]] = frozenset()

    def record_changes(self) -> None:
        """Record what is said of the policies now and was not said before."""
        policies = self._context.store.policies
        subject = policies.subject
        if subject is None:
            self._recorded = frozenset()
            return
        lines = {(subject.uid, line): line for line in policies.lines}
        for said, line in lines.items():
            if said not in self._recorded:
                self._context.recorder.record(
                    subject,
                    reason="PolicyProblem" if line.is_problem else "PolicyPartsIgnored",
                    message=line.text,
                    warning=line.is_problem,
                    rate_limit_key=POLICY_KEY,
                )
        self._recorded = frozenset(lines)
