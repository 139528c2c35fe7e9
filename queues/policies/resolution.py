"""Which policy counts for a pod: its job's, its queue's, the nearest ancestor's, or the global one.

| what is named                       | then                                                        |
|-------------------------------------|-------------------------------------------------------------|
| a policy that is there              | it counts                                                   |
| one whose text is wrong             | its last good text counts; where there is none, the next    |
| one that is not there               | the next in the order                                       |
| a key that holds no policy          | the next in the order                                       |
| nothing, anywhere                   | the global policy, if there is one; else none               |

Each name that could not be used is said (`Resolution.problems`), in the order in which it was tried.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec

from queues.policies.model import Policy
from queues.policies.policy_set import GLOBAL_KEY, PolicyEntry, PolicySet
from queues.text import quoted


class PolicySource(enum.Enum):
    """Who named the policy that counts."""

    JOB = "Job"
    QUEUE = "Queue"
    ANCESTOR = "Ancestor"
    GLOBAL = "Global"
    NONE = "None"


class PolicyProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A name that cannot be used as it is. `missing`: there is no such policy; else its text is wrong."""

    name: str
    queue: str
    missing: bool
    text: str


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """`queue`: the queue that names the policy; empty where a job or nobody does. `name`: its key."""

    source: PolicySource
    name: str = ""
    queue: str = ""
    policy: Policy | None = None
    problems: tuple[PolicyProblem, ...] = ()

    @property
    def stale(self) -> bool:
        """Whether the text of the policy is wrong now, so that its last good text counts."""
        return self.policy is not None and any(problem.name == self.name for problem in self.problems)


def resolve_policy(policies: PolicySet, *, chain: Iterable[tuple[str, str]], job: str = "") -> Resolution:
    """The policy of a pod. `chain`: queues with what each names (or ""), its own first; `job`: likewise."""
    problems: list[PolicyProblem] = []
    own = True
    for queue, name in (("", job), *chain):
        if name:
            entry = policies.named(name)
            problem = _problem(policies, entry, name, queue)
            if problem is not None:
                problems.append(problem)
            if entry is not None and entry.policy is not None:
                return Resolution(
                    source=_source(queue, own=own),
                    name=name,
                    queue=queue,
                    policy=entry.policy,
                    problems=tuple(problems),
                )
        own = own and not queue
    common = policies.common
    if common is not None:
        problem = _problem(policies, common, GLOBAL_KEY, "")
        if problem is not None:
            problems.append(problem)
        if common.policy is not None:
            return Resolution(
                source=PolicySource.GLOBAL, name=GLOBAL_KEY, policy=common.policy, problems=tuple(problems)
            )
    return Resolution(source=PolicySource.NONE, problems=tuple(problems))


def _source(queue: str, *, own: bool) -> PolicySource:
    if not queue:
        return PolicySource.JOB
    return PolicySource.QUEUE if own else PolicySource.ANCESTOR


def _problem(policies: PolicySet, entry: PolicyEntry | None, name: str, queue: str) -> PolicyProblem | None:
    if entry is None and name in policies.others:
        text = f"key {quoted(name)} holds no policy: it has neither actions nor tiers"
        return PolicyProblem(name=name, queue=queue, missing=False, text=text)
    if entry is None:
        return PolicyProblem(name=name, queue=queue, missing=True, text=f"there is no policy {quoted(name)}")
    if entry.problem is None:
        return None
    text = f"policy {quoted(name)}, {entry.problem}"
    return PolicyProblem(name=name, queue=queue, missing=False, text=text)
