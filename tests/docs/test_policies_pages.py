"""The pages on scheduling policies say what the code does, and its example is the one of the manifests."""

from __future__ import annotations

import re

from extender.prioritizing import KNOWN_SECONDS, UNKNOWN_SECONDS
from kubectl_queue.policies.config_map import NAME, NAMESPACE
from kubectl_queue.policies.manifest_check import check_policies
from queues import well_known
from queues.policies.effects import ACTIONS, MISSING_ACTIONS, PLUGINS
from queues.policies.model import WEIGHT_LIMIT, NodeOrder
from queues.policies.policy_set import GLOBAL_KEY, KEYS_LIMIT
from queues.policies.policy_texts import read_policies
from queues.policies.scheduler_conf import (
    DEPTH_LIMIT,
    NODE_ORDER_ARGUMENTS,
    TEXT_LIMIT,
    VALUE_LIMIT,
    parse_policy,
)
from server.settings import Settings
from tests.support import yaml_texts
from tests.support.docs.pages import Row, tables_of, text_of, words_of
from tests.support.paths import ROOT

PAGE = text_of(
    "concepts/scheduling-policies.md", "reference/scheduling-policies.md", "tasks/use-scheduling-policies.md"
)
WORDS = words_of(PAGE)
EXAMPLE = (ROOT / "manifests" / "examples" / "policies" / "policies.yaml").read_text()
SCHEDULER = (ROOT / "manifests" / "scheduler" / "scheduler-config.yaml").read_text()


def rows(section: str) -> list[Row]:
    return tables_of(PAGE, section)[0]


def test_each_action_has_its_row_in_the_words_of_the_code() -> None:
    """With what it means that a policy has not the action."""
    assert rows("Actions") == [
        [name, meaning.effect.value, meaning.text, MISSING_ACTIONS.get(name, "")]
        for name, meaning in ACTIONS.items()
    ]


def test_each_plugin_has_its_row_in_the_words_of_the_code() -> None:
    assert rows("Plugins") == [
        [name, meaning.effect.value, meaning.text] for name, meaning in PLUGINS.items()
    ]


def test_each_argument_has_its_default() -> None:
    documented = {argument: int(default) for argument, default, _ in tables_of(PAGE, "Plugins")[1]}
    text = "actions: allocate\ntiers: [{plugins: [{name: binpack}]}]"
    binpack = parse_policy(text).binpack
    assert binpack is not None
    assert documented == {
        "binpack.weight": binpack.weight,
        **{f"binpack.{name}": weight for name, weight in binpack.resources.items()},
        "binpack.resources.NAME": 1,
        **{key: getattr(NodeOrder(), field) for key, field in NODE_ORDER_ARGUMENTS.items()},
    }


def test_the_limits_are_those_of_the_code() -> None:
    limits = [int(value.replace(",", "")) for _, value in rows("Limits")]
    assert limits == [TEXT_LIMIT, VALUE_LIMIT, DEPTH_LIMIT, WEIGHT_LIMIT, KEYS_LIMIT]
    assert f"{KNOWN_SECONDS:g} s at most ({UNKNOWN_SECONDS:g} s for" in WORDS


def test_names_are_those_of_the_code() -> None:
    settings = Settings()
    assert (settings.policies_namespace, settings.policies_name) == (NAMESPACE, NAME)
    for name in (NAMESPACE, NAME, GLOBAL_KEY, well_known.SCHEDULER_POLICY, well_known.SCORED):
        assert f"`{name}`" in PAGE


def test_the_weight_of_the_second_entry_outweighs_the_scheduler_as_the_page_computes_it() -> None:
    weights = [
        extender["weight"]
        for extender in yaml_texts.load(SCHEDULER)["extenders"]
        if "prioritizeVerb" in extender
    ]
    found = re.search(r"The sum is (\d+) by default, and (\d+) with .*: (\d+) is enough", WORDS)
    assert found is not None
    largest, enough = int(found[2]), int(found[3])
    assert 10 * (enough - 1) == 100 * largest
    assert weights == [200]
    assert weights[0] > enough
    assert "`weight: 200`" in PAGE


def test_the_example_is_right_and_every_policy_of_it_is_named_by_a_queue() -> None:
    check = check_policies(EXAMPLE, name=NAME)
    assert (check.faults, check.warnings) == ([], [])
    objects = list(yaml_texts.load_all(EXAMPLE))
    (config_map,) = (obj for obj in objects if obj["kind"] == "ConfigMap")
    assert (config_map["metadata"]["namespace"], config_map["metadata"]["name"]) == (NAMESPACE, NAME)
    policies = read_policies(config_map["data"])
    named = {obj["spec"]["schedulerPolicy"] for obj in objects if obj["kind"] == "Queue"}
    assert named | {GLOBAL_KEY} == set(policies.entries)
    assert f"{len(check.policies)} policies, 0 faults, 0 warnings" in PAGE
    assert all(entry.policy is not None and entry.policy.scores for entry in policies.entries.values())
