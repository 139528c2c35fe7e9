"""Condition PolicyResolved of a queue, from the resolution of its scheduling policy.

======  ========  =====================================================================================
status  reason    when
======  ========  =====================================================================================
True    Own       the policy that the queue names counts
True    Ancestor  that of its nearest ancestor which names one counts
True    Global    nobody names one, and the ConfigMap has a global policy, which counts
False   NotFound  the policy that is named first is not in the ConfigMap; the message says what counts
False   Invalid   its text is wrong; the message has the line and the reason, and says what counts
absent            there is no global policy, and nobody names one
======  ========  =====================================================================================
"""

from __future__ import annotations

import msgspec

from queues.policies.policy_set import GLOBAL_KEY
from queues.policies.resolution import PolicyProblem, PolicySource, Resolution
from queues.status.conditions import DerivedCondition
from queues.text import join_limited, quoted, truncated

POLICY_RESOLVED = "PolicyResolved"
NOT_FOUND, INVALID = "NotFound", "Invalid"
#: Characters of the message, and how many problems it names.
MESSAGE_LIMIT, PROBLEMS_LIMIT = 1024, 3
_WAY_OUT = "; see: kubectl queue policy list"
_REASONS = {
    PolicySource.JOB: "Own",
    PolicySource.QUEUE: "Own",
    PolicySource.ANCESTOR: "Ancestor",
    PolicySource.GLOBAL: "Global",
}


def policy_condition(queue: str, resolution: Resolution) -> DerivedCondition | None:
    """The condition of a queue; None where no policy counts and none is named."""
    if resolution.problems:
        reason = NOT_FOUND if resolution.problems[0].missing else INVALID
        return DerivedCondition(POLICY_RESOLVED, False, reason, problems_text(queue, resolution))
    if resolution.source is PolicySource.NONE:
        return None
    return DerivedCondition(POLICY_RESOLVED, True, _REASONS[resolution.source], policy_in_use(resolution))


def policy_in_use(resolution: Resolution) -> str:
    """Which policy counts, and who names it."""
    name = quoted(resolution.name)
    last = "the last good text of " if resolution.stale else ""
    match resolution.source:
        case PolicySource.NONE:
            return "no policy counts"
        case PolicySource.GLOBAL:
            return f"{last}the global policy {name} counts"
        case PolicySource.ANCESTOR:
            return f"{last}policy {name} counts, which the ancestor {quoted(resolution.queue)} names"
        case PolicySource.QUEUE:
            return f"{last}policy {name} counts, which the queue names"
    return f"{last}policy {name} counts, which the job names"


def problems_text(queue: str, resolution: Resolution, *, limit: int = MESSAGE_LIMIT) -> str:
    """Why names on the queue's chain cannot be used as they are, which policy counts, and the way out."""
    missing = any(problem.missing for problem in resolution.problems)
    then = f"; {policy_in_use(resolution)}" + (_WAY_OUT if missing else "")
    problems = [_problem_text(queue, problem) for problem in resolution.problems]
    text = join_limited(problems, limit=PROBLEMS_LIMIT, joined="; ")
    return truncated(text, limit=max(limit - len(then), limit // 2)) + then


def admission_text(queue: str, resolution: Resolution, *, limit: int) -> str:
    """The same for whoever submits the queue: a replica may not know yet what another admitted a moment ago.

    The global policy is no policy that can be named.
    """
    problems = (
        msgspec.structs.replace(problem, text=f"no policy {quoted(problem.name)} is known yet")
        if problem.missing and problem.name != GLOBAL_KEY
        else problem
        for problem in resolution.problems
    )
    return problems_text(queue, msgspec.structs.replace(resolution, problems=tuple(problems)), limit=limit)


def _problem_text(queue: str, problem: PolicyProblem) -> str:
    by_ancestor = problem.queue not in {"", queue}
    return problem.text + (f" (named by the ancestor {quoted(problem.queue)})" if by_ancestor else "")
