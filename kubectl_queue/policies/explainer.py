"""Which scheduling policy counts for a queue or a pod, who names it, and what each part of it does there.

Promises
- The order is the server's (`queues.policies.resolution`). The annotation of a pod counts, else that of its
  PodGroup; admission writes what a workload names into its pod templates.
- What could not be read is a note: a queue above, a PodGroup, the last good text of a policy that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from kubectl_queue.access.object_reader import ObjectReader
from kubectl_queue.access.queue_reader import read_ancestors, read_chain
from kubectl_queue.cli.flags import checked_name
from kubectl_queue.cli.spelling import close_matches
from kubectl_queue.cli.suggestions import with_suggestions
from kubectl_queue.errors import ForbiddenError, KindMissingError, NotFoundError, UsageError
from kubectl_queue.objects.fields import Object, annotations_of, condition_of, spec_of, value_at
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.objects.types import POD, PODGROUP, QUEUE, type_of
from kubectl_queue.policies.config_map import ClusterPolicies
from kubectl_queue.session import Session
from kubectl_queue.why.membership import membership_of
from kubectl_queue.why.targets import ExplainedObject
from queues import well_known
from queues.apimachinery.quantities import parse_quantity
from queues.membership import GROUP_ANNOTATION
from queues.policies.model import Policy
from queues.policies.parts import PolicyPart, ScoredPodFacts, policy_parts
from queues.policies.policy_report import misplaced_text
from queues.policies.policy_set import GLOBAL_KEY
from queues.policies.resolution import PolicyProblem, PolicySource, Resolution, resolve_policy
from queues.status.policy_condition import POLICY_RESOLVED
from queues.text import printable, quoted

#: The resources that admission adds to a pod, which are none that it uses.
_OURS = frozenset({well_known.MARKER, well_known.SCORED})


class PolicyExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """`summary`: the whole answer in a line. `source`: of the policy; `named_by`: what names it."""

    kind: str
    name: str
    namespace: str = ""
    summary: str
    queue: str = ""
    source: str = PolicySource.NONE.value
    policy: str = ""
    named_by: str = msgspec.field(default="", name="namedBy")
    tried: tuple[str, ...] = ()
    parts: tuple[PolicyPart, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def parse_target(words: tuple[str, ...], *, command: str) -> ExplainedObject:
    """The queue or pod of a command line: NAME, queue/NAME, pod/NAME, pod NAME. Raises UsageError."""
    if len(words) == 2 and type_of(words[0]) is not None and "/" not in words[1]:
        words = (f"{words[0]}/{words[1]}",)
    if len(words) != 1:
        raise UsageError(f"name one queue, or one pod as pod/NAME; got {len(words)} words", see=command)
    kind, slash, name = words[0].partition("/")
    target_type = type_of(kind) if slash else QUEUE
    if target_type not in (QUEUE, POD):
        raise UsageError(
            "it explains queues and pods: give a queue's NAME, or pod/NAME for a pod of a workload",
            see=command,
        )
    return ExplainedObject(target_type, checked_name(name if slash else words[0], see=command))


class PolicyExplainer:
    """For one command. `namespace`: of pods."""

    def __init__(self, session: Session, cluster: ClusterPolicies, *, namespace: str) -> None:
        self._session = session
        self._cluster = cluster
        self._objects = ObjectReader(session.client)
        self._namespace = namespace

    def explain(self, target: ExplainedObject) -> PolicyExplanation:
        """Raises the server's error where the object or its queue cannot be read."""
        return self._pod(target.name) if target.type is POD else self._queue(target.name)

    def _queue(self, name: str) -> PolicyExplanation:
        with with_suggestions(self._session.api, name):
            item = self._session.api.get(name)
        chain = read_ancestors(self._session.api, item)
        subject = PolicyExplanation(kind=QUEUE.kind, name=name, queue=name, summary=f"queue {quoted(name)}")
        return self._explanation(subject, self._resolve(chain, name), chain)

    def _pod(self, name: str) -> PolicyExplanation:
        item = self._objects.get(POD, name, namespace=self._namespace)
        membership = membership_of(POD, item, owners=(), objects=self._objects)
        subject = PolicyExplanation(
            kind=POD.kind,
            name=name,
            namespace=self._namespace,
            summary=f"pod {self._namespace}/{name}",
            queue=(membership.queue or "") if membership is not None else "",
        )
        if not subject.queue:
            why = "is of no queue" if membership is None else "waits for its PodGroup, which names its queue"
            return replace(subject, summary=f"{subject.summary} {why}: no policy counts for it")
        chain = read_chain(self._session.api, subject.queue)
        job, named_by, notes = self._job_policy(item)
        node = str(spec_of(item).get("nodeName") or "")
        if node:
            notes.append(f"the pod is on node {node} already: actions and scores count for it no more")
        return self._explanation(
            replace(subject, notes=tuple(notes)),
            self._resolve(chain, subject.queue, job=job),
            chain,
            facts=ScoredPodFacts(resources=_requested_resources(item), scored=_is_scored(item)),
            job=named_by,
        )

    def _resolve(self, chain: QueueObjects, queue: str, *, job: str = "") -> Resolution:
        queues = chain.tree.chain(queue).queues if queue in chain.tree else ()
        return resolve_policy(
            self._cluster.policies, job=job, chain=[(each.name, each.scheduler_policy) for each in queues]
        )

    def _job_policy(self, item: Object) -> tuple[str, str, list[str]]:
        """The policy that the pod's job names, what names it, and what could not be read for it."""
        own = annotations_of(item).get(well_known.SCHEDULER_POLICY)
        if own:
            return str(own), f"annotation {well_known.SCHEDULER_POLICY} of the pod", []
        group = annotations_of(item).get(GROUP_ANNOTATION)
        if not group:
            return "", "", []
        try:
            podgroup = self._objects.get(PODGROUP, group, namespace=self._namespace)
        except (NotFoundError, KindMissingError):
            return "", "", []
        except ForbiddenError:
            return "", "", [f"you may not read PodGroup {group}; a policy that it names would count"]
        named = str(annotations_of(podgroup).get(well_known.SCHEDULER_POLICY) or "")
        return named, f"annotation {well_known.SCHEDULER_POLICY} of PodGroup {group}" if named else "", []

    def _explanation(
        self,
        subject: PolicyExplanation,
        resolution: Resolution,
        chain: QueueObjects,
        *,
        facts: ScoredPodFacts | None = None,
        job: str = "",
    ) -> PolicyExplanation:
        """`subject`: without the answer. `facts`: of a pod; `job`: what names its own policy."""
        policy = resolution.policy
        return replace(
            subject,
            summary=f"{subject.summary} {self._outcome(resolution, job)}",
            source=resolution.source.value,
            policy=resolution.name,
            named_by=_named_by(resolution, job),
            tried=tuple(self._tried(problem, job) for problem in resolution.problems),
            parts=policy_parts(policy, pod=facts) if policy is not None else (),
            warnings=_warnings(policy),
            notes=(*subject.notes, *self._notes(resolution, chain, subject.queue)),
        )

    def _outcome(self, resolution: Resolution, job: str) -> str:
        if resolution.source is PolicySource.NONE:
            return f"has no policy: kube-scheduler alone decides ({self._why_none(resolution)})"
        if resolution.source is PolicySource.GLOBAL:
            return f"has the global policy, {GLOBAL_KEY}"
        return f"has policy {quoted(resolution.name)}, named by {_named_by(resolution, job)}"

    def _tried(self, problem: PolicyProblem, job: str) -> str:
        """A name that was tried and cannot be used as it is, and the names that are near it."""
        others = self._cluster.policies.entries.keys() - {GLOBAL_KEY}
        near = close_matches(problem.name, sorted(others)) if problem.missing else ()
        text = problem.text + (f"; did you mean {' or '.join(map(quoted, near))}?" if near else "")
        if problem.queue:
            return f"queue {quoted(problem.queue)}: {text}"
        return text if problem.name == GLOBAL_KEY or not job else f"{job}: {text}"

    def _why_none(self, resolution: Resolution) -> str:
        if not self._cluster.exists:
            return f"there is no {self._cluster.place}"
        named = "none that is named can be used" if resolution.problems else "nothing names one"
        return f"{named}, and there is no global one"

    def _notes(self, resolution: Resolution, chain: QueueObjects, queue: str) -> Iterator[str]:
        if any(not problem.missing for problem in resolution.problems):
            yield (
                "a server that has read an earlier good text of a policy goes on with that as long as it "
                "lives; which it has is not known here"
            )
        if resolution.source is PolicySource.NONE:
            yield from map(misplaced_text, self._cluster.policies.misplaced[:1])
        if not chain.complete and resolution.source in (PolicySource.GLOBAL, PolicySource.NONE):
            yield "you may not read all queues above; a policy that one of them names would count"
        if queue not in chain.tree:
            yield f"queue {quoted(queue)} does not exist"
        condition = condition_of(chain.items.get(queue, {}), POLICY_RESOLVED)
        if condition.get("status") == "False":
            yield f"the controller says: {printable(str(condition.get('message')), limit=400)}"


def _named_by(resolution: Resolution, job: str) -> str:
    if resolution.source is PolicySource.JOB:
        return job
    if resolution.source is PolicySource.QUEUE:
        return f"queue {quoted(resolution.queue)}"
    return f"ancestor {quoted(resolution.queue)}" if resolution.source is PolicySource.ANCESTOR else ""


def _warnings(policy: Policy | None) -> tuple[str, ...]:
    return tuple(map(str, policy.ignored)) if policy is not None else ()


def _requests(item: Object) -> Iterator[Mapping[str, Any]]:
    for each in (*(spec_of(item).get("containers") or ()), *(spec_of(item).get("initContainers") or ())):
        yield value_at(each, "resources.requests") or {}
    yield value_at(item, "spec.resources.requests") or {}
    yield spec_of(item).get("overhead") or {}


def _requested_resources(item: Object) -> frozenset[str]:
    return frozenset(
        name
        for requests in _requests(item)
        for name, amount in requests.items()
        if name not in _OURS and parse_quantity(amount) != 0
    )


def _is_scored(item: Object) -> bool:
    return any(well_known.SCORED in requests for requests in _requests(item))
