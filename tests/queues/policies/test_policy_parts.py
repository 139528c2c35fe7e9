"""What each part of a policy does, and why a part does nothing."""

from __future__ import annotations

import pytest

from queues.policies.effects import ACTIONS, MISSING_ACTIONS, PLUGINS, PolicyPartEffect
from queues.policies.parts import (
    MISSING,
    NOT_FOR_POD,
    SWITCHED_OFF,
    PolicyPart,
    ScoredPodFacts,
    policy_parts,
    scorers,
)
from queues.policies.scheduler_conf import parse_policy
from tests.support.cases import each_case


def parts(
    *plugins: str, actions: str = "allocate", pod: ScoredPodFacts | None = None
) -> dict[str, PolicyPart]:
    text = "\n".join(
        [f'actions: "{actions}"', "tiers:", "- plugins:", *(f"  - {{{plugin}}}" for plugin in plugins)]
    )
    return {part.name: part for part in policy_parts(parse_policy(text), pod=pod)}


def test_every_action_and_plugin_has_its_effect_from_the_table() -> None:
    """Those that the policy does not undo itself."""
    every = "enqueue, allocate, backfill, preempt, reclaim"
    for name, meaning in ACTIONS.items():
        part = parts(actions=f"{every}, {name}")[name]
        assert (part.kind, part.effect) == ("action", meaning.effect.value)
        assert part.text.startswith(meaning.text)
    for name, meaning in PLUGINS.items():
        part = parts(f"name: {name}", actions=every)[name]
        assert (part.kind, part.effect) == ("plugin", meaning.effect.value)
        assert part.text.startswith(meaning.text)


def test_the_actions_that_a_policy_has_not_are_said() -> None:
    found = parts(actions="backfill, enqueue")
    assert {name: part.text for name, part in found.items() if part.effect == MISSING} == {
        name: text for name, text in MISSING_ACTIONS.items() if name != "backfill"
    }
    assert list(found) == ["backfill", "enqueue", "allocate", "preempt", "reclaim"]


def test_weights_are_said_with_what_scores() -> None:
    found = parts(
        'name: binpack, arguments: {binpack.weight: 10, binpack.resources: "nvidia.com/gpu", '
        "binpack.resources.nvidia.com/gpu: 3}",
        "name: nodeorder, arguments: {podaffinity.weight: 0, mostrequested.weight: 7}",
    )
    assert found["binpack"].text.endswith("weight 10, of cpu 1, memory 1, nvidia.com/gpu 3")
    assert "mostrequested.weight 7" in found["nodeorder"].text
    assert "podaffinity" not in found["nodeorder"].text


ALL_ZERO = ", ".join(
    f"{name}.weight: 0"
    for name in (
        *("leastrequested", "nodeaffinity", "podaffinity", "balancedresource"),
        *("tainttoleration", "imagelocality", "podtopologyspread"),
    )
)


@each_case(
    ("plugin", "why"),
    [
        ("name: binpack, enableNodeOrder: false", "enableNodeOrder is false"),
        ("name: binpack, arguments: {binpack.weight: 0}", "binpack.weight is 0"),
        (f"name: nodeorder, arguments: {{{ALL_ZERO}}}", "every weight is 0"),
        (
            "name: priority",
            "there are no victims that it could protect: the policy has no action preempt",
        ),
        (
            "name: priority, enableReclaimable: true",
            "there are no victims that it could protect: the policy has no action preempt or reclaim",
        ),
        (
            "name: priority, enablePreemptable: false",
            "enablePreemptable is false, and enableReclaimable is not true",
        ),
        (
            "name: conformance, enablePreemptable: false, enableReclaimable: false",
            "enablePreemptable and enableReclaimable are false",
        ),
        ("name: overcommit", "the policy has no action enqueue"),
    ],
)
def test_a_plugin_that_the_policy_undoes_says_by_what(plugin: str, why: str) -> None:
    (part,) = (part for part in parts(plugin).values() if part.kind == "plugin")
    assert (part.effect, part.text) == (SWITCHED_OFF, why)


def test_a_plugin_that_protects_victims_says_whose() -> None:
    """`conformance` protects system pods of no queue even where no other queue lends any."""
    found = parts("name: conformance", "name: priority", actions="preempt, reclaim")
    assert found["conformance"].text.endswith("victims of its own queue, of other queues and of no queue")
    assert found["priority"].text.endswith("victims of its own queue")
    assert parts("name: conformance")["conformance"].text.endswith("victims of no queue")
    gates = parts("name: priority, enableReclaimable: true", actions="preempt, reclaim")["priority"]
    assert gates.text.endswith("victims of its own queue and of other queues")


def test_for_a_pod_each_part_says_whether_it_concerns_the_pod() -> None:
    pod = ScoredPodFacts(resources=frozenset({"cpu"}), scored=False)
    found = parts("name: binpack", actions="allocate, backfill", pod=pod)
    assert found["allocate"].effect == PolicyPartEffect.APPLIED.value
    assert (found["backfill"].effect, found["binpack"].effect) == (NOT_FOR_POD, NOT_FOR_POD)
    without = parts(actions="backfill", pod=ScoredPodFacts(resources=frozenset(), scored=True))
    assert (without["allocate"].effect, without["backfill"].effect) == (
        NOT_FOR_POD,
        PolicyPartEffect.APPLIED.value,
    )


@pytest.mark.parametrize(
    ("resources", "effect"),
    [
        ({"cpu"}, PolicyPartEffect.APPLIED.value),
        ({"ephemeral-storage", "nvidia.com/gpu"}, PolicyPartEffect.APPLIED.value),
        ({"memory"}, NOT_FOR_POD),
        (set(), NOT_FOR_POD),
    ],
)
def test_binpack_does_nothing_for_a_pod_that_requests_nothing_of_what_counts(
    resources: set[str], effect: str
) -> None:
    """Memory counts not, since its weight is 0."""
    pod = ScoredPodFacts(resources=frozenset(resources), scored=True)
    binpack = parts(
        "name: binpack, arguments: {binpack.memory: 0, binpack.resources: nvidia.com/gpu}", pod=pod
    )["binpack"]
    assert binpack.effect == effect
    if effect == NOT_FOR_POD:
        assert binpack.text == "the pod requests none of cpu, nvidia.com/gpu, so all nodes score alike"


def test_the_plugins_that_score_are_known() -> None:
    text = "actions: allocate\ntiers: [{plugins: [{name: nodeorder}, {name: gang}, {name: binpack}]}]"
    assert scorers(parse_policy(text)) == ("nodeorder", "binpack")
