"""reclaim: which pods would be evicted now so that those that wait get what their queue deserves.

Promises
- It decides nothing itself: it asks the rule by which the leader decides (`queues.quota.reclaim_preview`), of
  what the user may read.
- It changes nothing: without --dry-run it is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from kubectl_queue.access.queue_reader import read_queues
from kubectl_queue.cli.flags import Flags, bool_flag, names
from kubectl_queue.cli.options import NO_HEADERS, Output, formats
from kubectl_queue.cli.suggestions import queue_not_found
from kubectl_queue.commands.verbs import Verb
from kubectl_queue.errors import QueueError, UsageError
from kubectl_queue.output.formats import DOCUMENTS, dump
from kubectl_queue.output.tables import TableLayout
from kubectl_queue.policies.config_map import FLAGS, place_of, read_cluster_policies
from kubectl_queue.session import Session
from kubectl_queue.views.text import plural
from kubectl_queue.why.reclaim import (
    ReadPods,
    deserved_of,
    read_budgets_of_all,
    read_nodes,
    read_pods,
)
from queues.drain.disruption_budgets import BudgetIndex
from queues.policies.model import Policy
from queues.policies.policy_set import PolicySet
from queues.policies.resolution import resolve_policy
from queues.policies.victims import PREEMPT, RECLAIM, asked_by
from queues.quota.giving_back import AllowedTaking
from queues.quota.kept_victims import QueueVictims
from queues.quota.reclaim_preview import Going, ReclaimFacts, ReclaimPreview, who_would_go
from queues.quota.report import amounts_text
from queues.quota.rules import NO_RULES, Rules, proportional_queues
from queues.quota.usage import PODS
from queues.text import printable, quoted
from queues.tree import Tree

_COMMAND = "kubectl queue reclaim"
_DRY_RUN = bool_flag("dry-run", "Say who would go; it changes nothing.")
_HEADINGS = ("NAMESPACE", "POD", "QUEUE", "GIVES", "FOR", "ACTION")


def run_reclaim(session: Session, flags: Flags) -> int:
    chosen = names(flags.names, command=_COMMAND)
    if len(chosen) != 1:
        raise UsageError(f"exactly one NAME is required, got {len(chosen)}", see=_COMMAND)
    if not flags.on("dry-run"):
        raise QueueError(
            "reclaiming is done by Sluice's controller, where the scheduling policy of the queue has action "
            "reclaim or preempt; use --dry-run to see who would go now"
        )
    queue = chosen[0]
    queues = read_queues(session.api, ())
    if queue not in queues.items:
        raise queue_not_found(queue, among=queues.tree)
    policies = read_cluster_policies(session.client, place_of(flags, command=_COMMAND)).policies
    policy_of = partial(_policy_of, policies, queues.tree)
    policy = policy_of(queue)
    asked = asked_by(policy) if policy is not None else AllowedTaking()
    budgets = BudgetIndex(read_budgets_of_all(session.client, warn=session.console.warn))
    warn = session.console.warn
    rules = NO_RULES
    if proportional := proportional_queues(queues.tree, policy_of):
        rules = Rules(proportional=proportional, nodes=read_nodes(session.client, warn=warn))
    pods = read_pods(
        session.client,
        queues.tree,
        budgets,
        asking=queue,
        now=queues.now,
        warn=warn,
        rules=rules,
        queues=queues.items,
    )
    facts = ReclaimFacts(
        ledger=pods.ledger,
        waiting=pods.waiting if queues.decisions.decision(queue).schedules else (),
        pods=pods.running,
        reclaimable=lambda name: queues.items.get(name, {}).get("spec", {}).get("reclaimable") is not False,
        allowed={f"{each.namespace}/{each.name}": each.allowed for each in budgets.budgets},
        gangs=pods.gangs,
        deserved=deserved_of(pods, queues.tree),
    )
    preview = who_would_go(queue, tree=queues.tree, asked=asked, facts=facts)
    if session.output in DOCUMENTS:
        rows = [dict(zip(_FIELDS, _row(each, pods), strict=True)) for each in preview.going]
        document = {
            "queue": queue,
            "evicted": rows,
            "withRoom": preview.with_room,
            "without": preview.without,
            "kept": [_kept_document(each) for each in preview.kept.queues] if preview.kept else [],
            "asking": preview.kept.asking if preview.kept else "",
        }
        session.console.say(dump(document, output=session.output))
        return 0
    if preview.going:
        table = [_row(each, pods) for each in preview.going]
        lines = TableLayout().lines(table if flags.on("no-headers") else [_HEADINGS, *table])
        session.console.say("\n".join(line.rstrip() for line in lines))
    session.console.note(_summary(queue, preview, is_any=asked.is_any))
    for line in preview.kept.lines() if preview.kept is not None else ():
        session.console.note(f"  {printable(line)}")
    return 0


def _policy_of(policies: PolicySet, tree: Tree, queue: str) -> Policy | None:
    chain = [(each.name, each.scheduler_policy) for each in tree.chain(queue).queues]
    return resolve_policy(policies, chain=chain).policy


def _kept_document(each: QueueVictims) -> Mapping[str, object]:
    kept = {rule.value: number for rule, number in each.kept}
    return {"queue": each.queue, "couldGo": each.could, "keptBy": kept, "denial": each.denial}


_FIELDS = ("namespace", "pod", "queue", "gives", "for", "action")


def _row(going: Going, pods: ReadPods) -> tuple[str, ...]:
    pod, claimant = going.pod, going.claimant
    namespace, _, name = pods.names[pod.uid].partition("/")
    gives = amounts_text({each: amount for each, amount in pod.requests if amount and each != PODS})
    action = PREEMPT if pod.queue == claimant.queue else RECLAIM
    shown = (namespace, name, pod.queue, gives, pods.names[claimant.uid], action)
    return tuple(map(printable, shown))


def _summary(queue: str, preview: ReclaimPreview, *, is_any: bool) -> str:
    waits = preview.with_room + preview.without + len({each.claimant.uid for each in preview.going})
    if not (preview.without or preview.going or preview.with_room):
        return f"no pod of queue {quoted(queue)} waits for room"
    if not is_any:
        return (
            f"the scheduling policy of queue {quoted(queue)} has neither action reclaim nor preempt: no pod "
            f"goes for the {plural(waits, 'pod')} that would ask"
        )
    parts = [f"{plural(len(preview.going), 'pod')} would go for pods of queue {quoted(queue)}"]
    if preview.with_room:
        parts.append(f"{preview.with_room} have room without that")
    if preview.without:
        parts.append(f"{preview.without} wait on: no pod may go for them")
    return "; ".join(parts)


VERBS = (
    Verb(
        name="reclaim",
        usage="NAME --dry-run",
        long=(
            "Say which pods would be evicted now so that pods of a queue that wait for room get what it "
            "deserves. The controller evicts them by itself, where the scheduling policy of the queue has "
            "action reclaim or preempt; so without --dry-run this is an error. It asks the same rule, of the "
            "pods, gangs, budgets and policies that you may read. What the controller remembers is not known "
            "here: pods that were let in again are left alone for a minute."
        ),
        examples=(
            "kubectl queue reclaim research --dry-run",
            "kubectl queue reclaim research --dry-run -o json",
        ),
        flags=(_DRY_RUN, formats(Output.TABLE, Output.JSON, Output.YAML), NO_HEADERS, *FLAGS),
        run=run_reclaim,
    ),
)
