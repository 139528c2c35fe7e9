"""What each part of a policy does: its actions, those that it has not, and its plugins with their weights.

The meaning of a part comes from `queues.policies.effects`. A policy can undo a part itself (a switch, a
weight of 0, an action without which a plugin has nothing to do), and a part may not concern a certain pod;
then the part says why.

Which plugins gate an action, the rules of victims say (`queues.policies.victims.asked_by`), and no other
table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from queues.policies.actions import ALLOCATE, BACKFILL
from queues.policies.effects import ACTIONS, MISSING_ACTIONS, PLUGINS
from queues.policies.model import Binpack, NodeOrder, Plugin, Policy
from queues.policies.scheduler_conf import NODE_ORDER_ARGUMENTS
from queues.policies.victims import PREEMPT, RECLAIM, asked_by
from queues.quota.giving_back import Taking
from queues.text import all_of

#: What is said of a part in place of a `PolicyPartEffect`.
MISSING, SWITCHED_OFF, NOT_FOR_POD = "missing", "switched off", "does nothing for this pod"
#: The action by which a pod gets victims of its own queue and of others, and the switch of plugins for it.
_SWITCHES = {PREEMPT: "enablePreemptable", RECLAIM: "enableReclaimable"}
_WHOSE = {PREEMPT: "of its own queue", RECLAIM: "of other queues"}
#: Whether a plugin gates what a pod may take.
_GATES: Mapping[str, Callable[[Taking], bool]] = {
    "conformance": lambda taking: taking.spares_critical,
    "priority": lambda taking: taking.lower_only,
}


class PolicyPart(msgspec.Struct, frozen=True, kw_only=True):
    """`kind`: action or plugin. `tier`, `line`: of a plugin, from 1; 0 for an action. `text`: no full stop.

    `effect`: the value of a `PolicyPartEffect`, or one of the words of this module.
    """

    kind: str
    name: str
    effect: str
    text: str
    tier: int = 0
    line: int = 0


class ScoredPodFacts(msgspec.Struct, frozen=True, kw_only=True):
    """`resources`: those of which the pod requests any. `scored`: whether kube-scheduler asks for scores."""

    resources: frozenset[str]
    scored: bool


def policy_parts(policy: Policy, *, pod: ScoredPodFacts | None = None) -> tuple[PolicyPart, ...]:
    """The actions in their order, then those that are missing, then the plugins. `pod`: for that pod."""
    return (*_actions(policy, pod), *(_plugin(policy, plugin, pod) for plugin in policy.plugins))


def scorers(policy: Policy) -> tuple[str, ...]:
    """The plugins of the policy that score nodes."""
    scores = {"binpack": policy.binpack, "nodeorder": policy.node_order}
    return tuple(plugin.name for plugin in policy.plugins if scores.get(plugin.name) is not None)


def gates_of(policy: Policy, action: str) -> tuple[str, ...]:
    """The plugins of the policy that keep pods from being victims of `preempt` or `reclaim`."""
    taking = _takings(policy)[action]
    return tuple(plugin for plugin, gates in _GATES.items() if gates(taking))


def _takings(policy: Policy) -> Mapping[str, Taking]:
    asked = asked_by(policy)
    return {PREEMPT: asked.own, RECLAIM: asked.others}


def _actions(policy: Policy, pod: ScoredPodFacts | None) -> Iterator[PolicyPart]:
    for name in policy.actions:
        meaning = ACTIONS[name]
        other = _of_other_pods(name, pod)
        effect, text = (NOT_FOR_POD, other) if other else (meaning.effect.value, meaning.text)
        if name in _SWITCHES:
            text = f"{text}; {_gated_by(gates_of(policy, name))}"
        yield PolicyPart(kind="action", name=name, effect=effect, text=text)
    for name, text in MISSING_ACTIONS.items():
        if name not in policy.actions:
            other = _of_other_pods(name, pod)
            yield PolicyPart(
                kind="action", name=name, effect=NOT_FOR_POD if other else MISSING, text=other or text
            )


def _gated_by(plugins: Sequence[str]) -> str:
    if not plugins:
        return "no plugin of the policy gates it"
    return f"plugin {plugins[0]} gates it" if len(plugins) == 1 else f"plugins {all_of(plugins)} gate it"


def _of_other_pods(action: str, pod: ScoredPodFacts | None) -> str:
    """Why the action does not concern this pod; empty where it does."""
    if pod is None or action not in (ALLOCATE, BACKFILL):
        return ""
    if pod.resources and action == BACKFILL:
        return f"the pod requests resources, so {ALLOCATE} counts"
    if not pod.resources and action == ALLOCATE:
        return f"the pod requests no resources, so {BACKFILL} counts"
    return ""


def _plugin(policy: Policy, plugin: Plugin, pod: ScoredPodFacts | None) -> PolicyPart:
    meaning = PLUGINS[plugin.name]
    effect, text = meaning.effect.value, meaning.text
    if plugin.name in ("binpack", "nodeorder"):
        weights = policy.binpack if plugin.name == "binpack" else policy.node_order
        if weights is None:
            effect, text = SWITCHED_OFF, _why_no_scores(plugin)
        elif pod is not None and not pod.scored:
            effect = NOT_FOR_POD
            text = "the pod came when its policy scored no nodes, so kube-scheduler asks for no scores"
        elif pod is not None and isinstance(weights, Binpack) and not _counted(weights) & pod.resources:
            effect, text = NOT_FOR_POD, _why_alike(weights)
        else:
            text = f"{text}; {_weights(weights)}"
    elif plugin.name == "overcommit" and policy.overcommit is None:
        off = "enqueue" in policy.actions
        effect, text = SWITCHED_OFF, "enableJobEnqueued is false" if off else _no_action(["enqueue"])
    elif plugin.name in _GATES:
        effect, text = _victims(policy, plugin, effect, text)
    return PolicyPart(
        kind="plugin", name=plugin.name, effect=effect, text=text, tier=plugin.tier, line=plugin.line
    )


def _why_no_scores(plugin: Plugin) -> str:
    if "enableNodeOrder" in plugin.disabled:
        return "enableNodeOrder is false"
    return "binpack.weight is 0" if plugin.name == "binpack" else "every weight is 0"


def _counted(weights: Binpack) -> frozenset[str]:
    """The resources that binpack looks at."""
    return frozenset(name for name, weight in weights.resources.items() if weight)


def _why_alike(weights: Binpack) -> str:
    counted = ", ".join(sorted(_counted(weights)))
    why = f"the pod requests none of {counted}" if counted else "every resource has weight 0"
    return f"{why}, so all nodes score alike"


def _weights(weights: Binpack | NodeOrder) -> str:
    if isinstance(weights, Binpack):
        amounts = ", ".join(f"{name} {amount}" for name, amount in sorted(weights.resources.items()))
        return f"weight {weights.weight}, of {amounts}"
    named = [(key, getattr(weights, field)) for key, field in NODE_ORDER_ARGUMENTS.items()]
    return ", ".join(f"{key} {amount}" for key, amount in named if amount)


def _victims(policy: Policy, plugin: Plugin, effect: str, text: str) -> tuple[str, str]:
    """What a plugin that protects victims does: only for kinds of victims that the policy lets a pod have."""
    on = [action for action, taking in _takings(policy).items() if _GATES[plugin.name](taking)]
    if not on:
        return SWITCHED_OFF, _why_off(plugin)
    whose = [_WHOSE[action] for action in on if action in policy.actions]
    if plugin.name == "conformance" and RECLAIM in on:
        whose.append("of no queue")
    if not whose:
        return SWITCHED_OFF, f"there are no victims that it could protect: {_no_action(on)}"
    return effect, f"{text}; counts for victims {all_of(whose)}"


def _why_off(plugin: Plugin) -> str:
    """Which switches keep the plugin from gating any action: false where one is on by itself, else not
    true.
    """
    off = [switch for switch in _SWITCHES.values() if switch in plugin.disabled]
    not_on = [switch for switch in _SWITCHES.values() if switch not in plugin.disabled]
    if not not_on:
        return f"{all_of(off)} are false"
    return ", and ".join(
        [*(f"{switch} is false" for switch in off), *(f"{switch} is not true" for switch in not_on)]
    )


def _no_action(actions: Sequence[str]) -> str:
    return f"the policy has no action {' or '.join(actions)}"
