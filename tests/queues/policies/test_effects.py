"""The table of effects, line by line: what the code asks of a policy, what `explain` says, and what the page
says.
"""

from __future__ import annotations

from typing import Any

from queues.policies.actions import missing_action
from queues.policies.effects import (
    ACTIONS,
    APPLIED_SWITCHES,
    PLUGINS,
    SWITCHES,
    WITH_ARGUMENTS,
    WITHOUT_EFFECT,
    PolicyPartEffect,
)
from queues.policies.model import Policy
from queues.policies.parts import gates_of, policy_parts
from queues.policies.policy_set import PolicyEntry, PolicySet
from queues.policies.resolution import PolicySource, Resolution
from queues.policies.scheduler_conf import parse_policy
from queues.policies.victims import asked_by
from tests.support.cases import each_case
from tests.support.docs.pages import tables_of, text_of

PAGE = text_of("reference/scheduling-policies.md")
#: An argument that changes what a plugin does, where it has any.
ARGUMENTS = {"binpack": "binpack.cpu", "nodeorder": "podaffinity.weight", "overcommit": "overcommit-factor"}


def policy(*, actions: str = "", plugins: str = "", fields: str = "") -> Policy:
    """With all actions and plugins but those; `fields`: of the plugin `plugins`, which stays then."""
    left = [name for name in PLUGINS if fields or name != plugins]
    listed = [f"{{name: {name}{f', {fields}' if fields and name == plugins else ''}}}" for name in left]
    named = ", ".join(name for name in ACTIONS if name != actions)
    return parse_policy(f"actions: {named}\ntiers: [{{plugins: [{', '.join(listed)}]}}]")


def answers(of: Policy) -> tuple[Any, ...]:
    """All that the server asks of a policy."""
    resolution = Resolution(source=PolicySource.QUEUE, name="p", queue="q", policy=of)
    entry = PolicyEntry(name="p", text="", policy=of)
    return (
        of.binpack,
        of.node_order,
        of.overcommit,
        of.shares_by_weight,
        asked_by(of),
        *(missing_action(resolution, queue="q", has_requests=requests) for requests in (True, False)),
        PolicySet({"p": entry}).protects_system_pods,
    )


ALL = answers(policy())


@each_case("name", ACTIONS)
def test_the_code_asks_for_an_action_exactly_where_the_table_says_so(name: str) -> None:
    differs = answers(policy(actions=name)) != ALL
    assert differs is (ACTIONS[name].effect is PolicyPartEffect.APPLIED)


@each_case("name", PLUGINS)
def test_the_code_asks_for_a_plugin_exactly_where_the_table_says_so(name: str) -> None:
    differs = answers(policy(plugins=name)) != ALL
    assert differs is (PLUGINS[name].effect is PolicyPartEffect.APPLIED)


@each_case("switch", sorted(SWITCHES - {"enableHierarchy"}))
@each_case("name", PLUGINS)
def test_a_switch_is_asked_for_exactly_where_the_table_says_so(name: str, switch: str) -> None:
    """Written as true, as false, or not at all."""
    said = [answers(policy(plugins=name, fields=f"{switch}: {value}")) for value in ("true", "false")]
    assert any(each != ALL for each in said) is (switch in APPLIED_SWITCHES.get(name, ()))


@each_case("name", PLUGINS)
def test_arguments_are_asked_for_exactly_where_the_table_says_so(name: str) -> None:
    fields = f"arguments: {{{ARGUMENTS.get(name, 'weight')}: 7}}"
    changed = policy(plugins=name, fields=fields)
    assert (answers(changed) != ALL) is (name in WITH_ARGUMENTS)
    said = any(part.kind == "arguments" and part.name == name for part in changed.idle)
    assert said is (name not in WITH_ARGUMENTS and PLUGINS[name].effect not in WITHOUT_EFFECT)


def test_what_does_nothing_is_said_once_for_each_line_of_the_table() -> None:
    whole = policy()
    idle = [part.name for part in whole.idle]
    table = {**ACTIONS, **PLUGINS}
    assert sorted(idle) == sorted(name for name, each in table.items() if each.effect in WITHOUT_EFFECT)


def test_explain_and_the_page_say_of_each_what_the_table_says() -> None:
    parts = {part.name: part for part in policy_parts(policy())}
    rows = {row[0]: row[1:3] for section in ("Actions", "Plugins") for row in tables_of(PAGE, section)[0]}
    assert parts.keys() == rows.keys()
    for name, meaning in {**ACTIONS, **PLUGINS}.items():
        assert rows[name] == [meaning.effect.value, meaning.text]
        assert parts[name].effect == meaning.effect.value
        assert parts[name].text.startswith(meaning.text)


@each_case(
    ("switches", "preempt", "reclaim"),
    [
        ("enablePreemptable: true, enableReclaimable: true", True, True),
        ("enablePreemptable: false, enableReclaimable: true", False, True),
        ("enablePreemptable: true, enableReclaimable: false", True, False),
        ("enablePreemptable: false, enableReclaimable: false", False, False),
    ],
)
@each_case("name", ["conformance", "priority"])
def test_explain_names_the_gates_of_an_action_by_the_code_that_decides(
    name: str, switches: str, preempt: bool, reclaim: bool
) -> None:
    of = policy(plugins=name, fields=switches)
    parts = {part.name: part for part in policy_parts(of)}
    for action, gated in (("preempt", preempt), ("reclaim", reclaim)):
        assert (name in gates_of(of, action)) is gated
        assert (name in parts[action].text) is gated


def test_an_action_that_no_plugin_gates_says_so() -> None:
    parts = {part.name: part for part in policy_parts(parse_policy("actions: reclaim\ntiers: [{}]"))}
    assert parts["reclaim"].text.endswith("; no plugin of the policy gates it")
