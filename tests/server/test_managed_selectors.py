"""Whether the webhooks, the policy and the server's setting select the same namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from queues.managed_namespaces import read_selector
from server.managed_selectors import NOT_NARROWED, POLICY, differences
from tests.support import yaml_texts
from tests.support.paths import ROOT

MANIFESTS = ROOT / "manifests"
MANAGED = {"matchLabels": {"sluice.dev/managed": "true"}}
MANAGED_TEXT = "sluice.dev/managed=true"
BOUND = {
    "matchExpressions": [
        {"key": "sluice.dev/managed", "operator": "NotIn", "values": ["true"]},
        {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": ["kube-system", "sluice-system"],
        },
    ]
}


def entries(**narrowed_by: Any) -> dict[str, Any]:
    """Those of manifests/webhooks, with this added to the selector of each that is narrowed."""
    hooks = [
        hook
        for name in ("mutating.yaml", "validating.yaml")
        for hook in yaml_texts.load((MANIFESTS / "webhooks" / name).read_text())["webhooks"]
    ]
    return {
        hook["name"]: {
            **hook.get("namespaceSelector", {}),
            **({} if hook["name"] in NOT_NARROWED else narrowed_by),
        }
        for hook in hooks
    }


def found(setting: str, hooks: dict[str, Any], *bindings: Any) -> list[str]:
    return list(differences(read_selector(setting), entries=hooks, bindings=bindings))


def test_the_manifests_and_the_component_differ_in_nothing() -> None:
    assert found("", entries()) == []
    assert found(MANAGED_TEXT, entries(**MANAGED), BOUND) == []


def test_the_component_narrows_the_entries_that_are_compared() -> None:
    """A new entry is compared unless the code names it."""
    component = yaml_texts.load((MANIFESTS / "managed-namespaces" / "kustomization.yaml").read_text())
    hooks = [
        hook
        for patch in component["patches"]
        if "Webhook" in patch["target"]["kind"]
        for hook in yaml_texts.load(patch["patch"])["webhooks"]
    ]
    assert {hook["name"] for hook in hooks if hook.get("namespaceSelector") == MANAGED} == {
        hook["name"] for hook in hooks if hook["name"] not in NOT_NARROWED
    }
    [policy, binding] = yaml_texts.load_all((MANIFESTS / "managed-namespaces" / "policy.yaml").read_text())
    assert policy["metadata"]["name"] == binding["spec"]["policyName"] == POLICY
    assert binding["spec"]["matchResources"]["namespaceSelector"] == BOUND


def test_an_entry_that_selects_others_is_named_with_both_selectors_and_the_way_out() -> None:
    hooks = {
        **entries(**MANAGED),
        "pods.sluice.dev": {"matchLabels": {"team": "a"}},
        "scales.sluice.dev": None,
    }
    rest = (
        "setting managed_namespaces: namespaces with sluice.dev/managed in (true); give webhooks, policy and "
    )
    assert [line.partition("setting the same")[0] for line in found(MANAGED_TEXT, hooks, BOUND)] == [
        f"pods.sluice.dev of the webhooks: namespaces with team in (a); {rest}",
        f"scales.sluice.dev of the webhooks: every namespace; {rest}",
    ]


def test_entries_that_select_the_same_others_share_a_line() -> None:
    [line] = found("", entries(**MANAGED))
    assert line.startswith("members.pods.sluice.dev, namespaces.pods.sluice.dev, ")
    assert "setting managed_namespaces: every namespace" in line


@pytest.mark.parametrize(
    ("setting", "hooks", "bindings", "text"),
    [
        ("", entries(), [BOUND], "bound to namespaces with sluice.dev/managed notin (true), and not to no"),
        (
            MANAGED_TEXT,
            entries(**MANAGED),
            [],
            "to no namespace, and not to namespaces with sluice.dev/managed",
        ),
        (MANAGED_TEXT, entries(**MANAGED), [MANAGED], "sluice.dev/managed in (true), and not to namespaces"),
    ],
    ids=["left over", "missing", "not the opposite"],
)
def test_a_policy_that_is_bound_to_other_namespaces_is_named(
    setting: str, hooks: dict[str, Any], bindings: list[Any], text: str
) -> None:
    [line] = found(setting, hooks, *bindings)
    assert line.startswith("policy sluice-unmanaged is bound to ")
    assert text in line


def test_however_a_selector_is_written_it_is_the_same() -> None:
    hooks = entries(matchLabels={}, matchExpressions=[{"key": "team", "operator": "In", "values": ["a"]}])
    opposite = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}
    assert found("team=a", hooks, opposite) == []


def test_of_several_requirements_each_has_its_binding() -> None:
    wanted = {"matchLabels": {"team": "a", "tier": "b"}}
    opposites = [
        {"matchExpressions": [{"key": key, "operator": "NotIn", "values": [value]}]}
        for key, value in wanted["matchLabels"].items()
    ]
    assert found("team=a,tier=b", entries(**wanted), *opposites) == []
    assert len(found("team=a,tier=b", entries(**wanted), opposites[0])) == 1
