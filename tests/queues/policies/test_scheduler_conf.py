"""A policy's text in Volcano's format: what is read, refused with its line, or ignored with a warning."""

from __future__ import annotations

from fractions import Fraction

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from queues.policies.effects import ACTIONS, PLUGINS
from queues.policies.model import Binpack, NodeOrder
from queues.policies.scheduler_conf import (
    FAULTS_LIMIT,
    TEXT_LIMIT,
    VALUE_LIMIT,
    WARNINGS_LIMIT,
    BadPolicy,
    examine_policy,
    parse_policy,
)
from tests.support.cases import each_case
from tests.support.volcanos_policy import VOLCANOS_POLICY


def with_plugin(*lines: str) -> str:
    return "\n".join(['actions: "allocate"', "tiers:", "- plugins:", *(f"  {line}" for line in lines)])


def refusal(text: str) -> tuple[int, str]:
    with pytest.raises(BadPolicy) as caught:
        parse_policy(text)
    return caught.value.place.line, caught.value.place.reason


def test_the_example_of_volcano_is_read_whole() -> None:
    policy = parse_policy(VOLCANOS_POLICY)
    assert policy.actions == ("enqueue", "allocate", "backfill")
    assert [(plugin.name, plugin.tier, plugin.line) for plugin in policy.plugins] == [
        ("priority", 1, 4),
        ("gang", 1, 5),
        ("conformance", 1, 7),
        ("overcommit", 2, 9),
        ("drf", 2, 10),
        ("predicates", 2, 12),
        ("proportion", 2, 13),
        ("nodeorder", 2, 14),
        ("binpack", 2, 15),
    ]
    assert policy.warnings == ()
    assert [part.name for part in policy.idle] == ["enablePreemptable of gang", "drf"]
    assert not policy.enables("gang", "enablePreemptable")
    assert policy.enables("gang", "enableReclaimable")


def test_defaults_are_those_of_volcano() -> None:
    policy = parse_policy(VOLCANOS_POLICY)
    assert policy.binpack == Binpack(weight=1, resources={"cpu": 1, "memory": 1})
    assert policy.node_order == NodeOrder(
        least_requested=1,
        most_requested=0,
        node_affinity=2,
        pod_affinity=2,
        balanced_resource=1,
        taint_toleration=3,
        image_locality=1,
        pod_topology_spread=2,
    )


def test_arguments_of_binpack() -> None:
    policy = parse_policy(
        with_plugin(
            "- name: binpack",
            "  arguments:",
            "    binpack.weight: 10",
            "    binpack.cpu: 5",
            "    binpack.memory: -1",
            "    binpack.resources: nvidia.com/gpu, example.com/foo,, ",
            "    binpack.resources.nvidia.com/gpu: 2",
        )
    )
    assert policy.binpack == Binpack(
        weight=10, resources={"nvidia.com/gpu": 2, "example.com/foo": 1, "cpu": 5, "memory": 1}
    )
    assert [str(warning) for warning in policy.warnings] == [
        'line 8: "binpack.memory" is negative; 1 is used'
    ]


def test_a_switch_turns_the_scores_of_a_plugin_off() -> None:
    policy = parse_policy(with_plugin("- name: binpack", "  enableNodeOrder: false", "- name: nodeorder"))
    assert policy.binpack is None
    assert policy.node_order == NodeOrder()
    assert policy.scores


@pytest.mark.parametrize(
    "arguments",
    [
        ["- name: binpack", "  arguments: {binpack.weight: 0}"],
        [
            "- name: nodeorder",
            "  arguments: {leastrequested.weight: 0, nodeaffinity.weight: 0, podaffinity.weight: 0,",
            "    balancedresource.weight: 0, tainttoleration.weight: 0, imagelocality.weight: 0,",
            "    podtopologyspread.weight: 0}",
        ],
        ["- name: predicates"],
    ],
)
def test_what_weighs_nothing_scores_nothing(arguments: list[str]) -> None:
    assert not parse_policy(with_plugin(*arguments)).scores


@each_case(
    ("text", "line", "reason"),
    [
        ("", 1, "empty"),
        ("# nothing", 1, "empty"),
        ("allocate", 1, 'a policy is the text "allocate"'),
        ("- allocate", 1, "a policy is a list"),
        ("actions: [\n", 2, "not YAML"),
        ("actions: allocate\ntiers: {\n", 3, "not YAML"),
        ("actions: allocate\n---\nactions: allocate", 2, "second document"),
        ("tiers: [{}]", 1, "actions is missing"),
        ("actions: allocate", 1, "tiers is missing or empty"),
        ("actions: allocate\n\ntiers: []", 3, "tiers is missing or empty"),
        ("actions: allocate\ntiers:", 2, "tiers is missing or empty"),
        ('actions: ""', 1, "actions is empty"),
        ("actions: allocate,", 1, "between two commas"),
        ("actions: [allocate]", 1, "actions is a list"),
        ("actions: 7", 1, "actions is 7"),
        ("actions: balance, x", 1, 'there is no action "balance"; there are enqueue, allocate'),
        ("actions: alocate", 1, 'did you mean "allocate"?'),
        ("actions: allocate\ntiers: x", 2, 'the text "x", not a list'),
        ("actions: allocate\ntiers:\n- plugins: {}", 3, "an object, not a list"),
        ("actions: allocate\ntiers:\n- plugins:\n  - binpack", 4, "not fields with values"),
        (with_plugin("- enableNodeOrder: true"), 4, "a plugin has no name"),
        (with_plugin("- name: 7"), 4, "a plugin has no name"),
        (with_plugin("- name: gang", '  enableJobOrder: "yes"'), 5, "write true or false"),
        (with_plugin("- name: binpack", "  arguments: [1]"), 5, "arguments is a list"),
        (with_plugin("- name: binpack", "  arguments:", "    binpack.weight: -1"), 6, "from 0 to 1,000,000"),
        (with_plugin("- name: binpack", "  arguments:", "    binpack.cpu: 99999999"), 6, "from 0 to"),
        (with_plugin("- name: nodeorder", "  arguments:", "    podaffinity.weight: -2"), 6, "from 0 to"),
        (with_plugin("- name: nodeorder", "  arguments:", f"    podaffinity.weight: {'9' * 5000}"), 6, "9"),
        (
            with_plugin("- name: drf", "  enableHierarchy: true", "- name: proportion"),
            4,
            "exclude each other",
        ),
        ("actions: allocate\n? [a]\n: b", 2, "a key is not a text"),
        ("actions: allocate\n<<: 7", 2, "merge key"),
        ("actions: allocate\n<<: [{tiers: [{}]}, 7]", 2, "merge key"),
        ("actions: allocate\ntiers:\n\t- plugins: []", 3, "not YAML"),
        ("actions: !!python/object:os.system {}", 1, "actions is an object"),
        ("actions: \x07", 1, "not YAML"),
        (with_plugin("- name: binpack", "  enableNodeOrder: !!bool x"), 5, '"x" cannot be read as bool'),
        (with_plugin("- name: binpack", "  arguments:", '    binpack.cpu: !!float ""'), 6, "as float"),
        (with_plugin("- name: binpack", "  arguments:", "    binpack.cpu: !!int one"), 6, "as int"),
        ("x: " + "[" * 40 + "]" * 40, 1, "nested deeper"),
        ("a" * (TEXT_LIMIT + 1), 1, "longer than"),
        ("actions: allocate\ntiers:\n" + "- {}\n" * VALUE_LIMIT, 2500, "more than 5,000 values"),
    ],
)
def test_a_text_that_is_no_policy_is_refused_with_its_line(text: str, line: int, reason: str) -> None:
    at, why = refusal(text)
    assert reason in why
    assert at == line or line == 2500 < at
    assert len(why) <= 400
    assert why.isprintable()


@each_case(
    ("line", "default", "warning"),
    [
        ('binpack.weight: "10"', 1, 'is the text "10", not a whole number; the default 1 is used'),
        ("binpack.weight: 1.5", 1, "is 1.5, not a whole number"),
        ("binpack.weight: .nan", 1, "is nan, not a whole number"),
        ("binpack.weight: .inf", 1, "is inf, not a whole number"),
        ("binpack.weight: true", 1, "is true, not a whole number"),
        ("binpack.weight: null", 1, "is null, not a whole number"),
        ("binpack.weight: [3]", 1, "is a list, not a whole number"),
        ("binpack.weight: 1:30", 1, 'is the text "1:30", not a whole number'),
        ("binpack.wait: 3", 1, 'did you mean "binpack.weight"?'),
        ("binpack.resources: 7", 1, "binpack.resources is 7, not a text, and is ignored"),
        ("binpack.resources.x.y/z: 7", 1, 'counts only if binpack.resources lists "x.y/z"'),
    ],
)
def test_what_volcano_ignores_is_ignored_with_a_warning(line: str, default: int, warning: str) -> None:
    policy = parse_policy(with_plugin("- name: binpack", "  arguments:", f"    {line}"))
    assert policy.binpack is not None and policy.binpack.weight == default
    assert [place.line for place in policy.warnings] == [6]
    assert warning in policy.warnings[0].reason


@each_case(
    ("text", "line", "warning"),
    [
        (
            "actions: allocate\nteirs: []\ntiers: [{}]",
            2,
            'a policy has no field "teirs"; it is ignored; did you mean "tiers"?',
        ),
        ("actions: allocate\ntiers:\n- plugin: []", 3, "tier 1 has no field"),
        (
            "actions: backfill\nactions: allocate\ntiers: [{}]",
            2,
            '"actions" is there twice, in line 1 too; this one counts',
        ),
        (with_plugin("- name: gang", "  enabledJobOrder: true"), 5, 'did you mean "enableJobOrder"?'),
        (
            with_plugin("- name: nodeorder", "  arguments:", "    leastrequested: 1"),
            6,
            "leastrequested.weight",
        ),
    ],
)
def test_unknown_fields_are_ignored_with_a_warning(text: str, line: int, warning: str) -> None:
    (place,) = parse_policy(text).warnings
    assert place.line == line
    assert warning in place.reason


def test_a_name_that_is_not_known_is_passed_over_and_said_once() -> None:
    """Another version of Volcano may have it, or somebody's own build."""
    text = with_plugin(
        "- name: acme-npu", "  any: [thing]", "- name: gang", "- name: binpak", "- name: acme-npu"
    )
    policy = parse_policy(text.replace('"allocate"', '"elect, allocate"'))
    assert (policy.actions, [plugin.name for plugin in policy.plugins]) == (("allocate",), ["gang"])
    assert [str(part.place) for part in policy.unknown] == [
        'line 1: action "elect" is not known here, and is passed over',
        'line 4: plugin "acme-npu" is not known here, and is passed over',
        'line 7: plugin "binpak" is not known here, and is passed over; did you mean "binpack"?',
    ]
    assert policy.warnings == ()


def test_what_is_known_and_does_nothing_is_named_with_its_line() -> None:
    text = (
        VOLCANOS_POLICY.replace("backfill", "backfill, shuffle")
        .replace("predicates", "predicates\n    arguments: {predicate.GPUSharingEnable: true}")
        .replace("binpack", "sla\n    enableJobOrder: false\n    arguments: {sla-waiting-time: 1h}")
    )
    policy = parse_policy(text + "configurations: [{name: enqueue}]\nmetrics: {}\n")
    assert [(part.line, part.kind, part.name) for part in policy.idle] == [
        (19, "field", "configurations"),
        (1, "action", "shuffle"),
        (5, "switch", "enablePreemptable of gang"),
        (10, "plugin", "drf"),
        (12, "arguments", "predicates"),
        (16, "plugin", "sla"),
    ]
    assert policy.idle[3].text == 'plugin "drf" does nothing yet: shares do not order queues or jobs'


def test_a_plugin_that_is_listed_twice_counts_as_volcano_counts_it() -> None:
    """It starts the plugin with the arguments of each, and asks it in each tier where the switch is on."""
    policy = parse_policy(
        with_plugin(
            "- name: binpack",
            "  enableNodeOrder: false",
            "  arguments: {binpack.weight: 2, binpack.cpu: 7}",
            "- name: binpack",
            "  arguments: {binpack.weight: 3}",
        )
    )
    assert policy.binpack == Binpack(weight=3, resources={"cpu": 1, "memory": 1})
    [warning] = policy.warnings
    assert str(warning).startswith(
        'line 7: plugin "binpack" is listed twice, in line 4 too; the arguments here'
    )
    off = parse_policy(with_plugin(*2 * ("- name: binpack", "  enableNodeOrder: false")))
    assert off.binpack is None


def test_merge_keys_set_what_they_have_where_they_stand() -> None:
    """As Volcano's reader does: later keys override; of a list of mappings the first has precedence."""
    policy = parse_policy(
        with_plugin(
            "- &pack {name: binpack, arguments: &weights {binpack.weight: 5, binpack.cpu: 2}}",
            "- name: nodeorder",
            "  arguments: {<<: [{podaffinity.weight: 7}, {podaffinity.weight: 8, nodeaffinity.weight: 9}]}",
            "- <<: *pack",
            "  arguments: {binpack.cpu: 3, <<: *weights, binpack.weight: 6}",
        )
    )
    assert policy.binpack == Binpack(weight=6, resources={"cpu": 2, "memory": 1})
    assert policy.node_order is not None
    assert (policy.node_order.pod_affinity, policy.node_order.node_affinity) == (7, 9)


def test_warnings_are_bounded() -> None:
    policy = parse_policy("actions: allocate\ntiers: [{}]\n" + "".join(f"x{n}: 1\n" for n in range(1000)))
    assert len(policy.warnings) == WARNINGS_LIMIT


def test_null_is_the_same_as_absent() -> None:
    policy = parse_policy(
        "actions: allocate\ntiers:\n- plugins:\n"
        "- plugins:\n  - {name: gang, enableJobOrder: null, arguments: null}"
    )
    assert [plugin.name for plugin in policy.plugins] == ["gang"]
    assert policy.enables("gang", "enableJobOrder")


def test_aliases_count_as_often_as_they_are_used() -> None:
    bomb = "a: &a [1,2,3,4,5,6,7,8]\n" + "".join(
        f"{name}: &{name} [{', '.join(['*' + before] * 8)}]\n"
        for before, name in zip("abcdefg", "bcdefgh", strict=True)
    )
    assert "more than 5,000 values" in refusal(f"actions: allocate\n{bomb}")[1]
    used_once = "actions: &actions allocate\nmetrics: {actions: *actions}\ntiers: [{}]"
    assert parse_policy(used_once).actions == ("allocate",)


def test_every_action_and_plugin_of_the_table_is_known() -> None:
    listed = "".join(f"  - name: {name}\n" for name in PLUGINS)
    policy = parse_policy(f"actions: {', '.join(ACTIONS)}\ntiers:\n- plugins:\n{listed}")
    assert policy.actions == tuple(ACTIONS)
    assert {plugin.name for plugin in policy.plugins} == set(PLUGINS)


@given(st.text(max_size=300))
def test_any_text_is_a_policy_or_is_refused(text: str) -> None:
    _either(text)


_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
_fields = st.sampled_from(
    ["actions", "tiers", "plugins", "name", "arguments", "binpack", "binpack.weight", "enableNodeOrder"]
)
_anything = st.recursive(
    _scalars | _fields,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(_fields | st.text(max_size=4), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(_anything)
def test_any_yaml_is_a_policy_or_is_refused(value: object) -> None:
    _either(yaml.safe_dump(value))


@given(
    st.sampled_from(["int", "float", "bool", "null", "str", "binary", "timestamp", "set", "omap", "pairs"]),
    st.text("01.+-_:exnatrue \"'", max_size=6) | st.sampled_from(["[]", "{}", "[a]", "{a: b}"]),
)
def test_a_value_of_any_type_is_a_policy_or_is_refused(tag: str, value: str) -> None:
    for line in (f"enableNodeOrder: !!{tag} {value}", f"arguments: {{binpack.weight: !!{tag} {value}}}"):
        _either(with_plugin("- name: binpack", f"  {line}"))
    _either(f"actions: !!{tag} {value}")


def _either(text: str) -> None:
    try:
        policy = parse_policy(text)
    except BadPolicy as exc:
        assert exc.place.line >= 1
        assert exc.place.reason.isprintable()
    else:
        assert policy.actions


def test_an_examination_names_every_fault_and_every_warning() -> None:
    """A fault in one place does not hide those in others; `parse_policy` says the first."""
    text = """\
actions: "allocate, alocate, prempt"
colour: red
tiers:
- plugins:
  - name: binpack
    arguments:
      binpack.weight: -1
      binpack.cpu: 2000000
      binpack.memory: "5"
  - name: binpak
  - name: gang
    enabled: maybe
- plugins:
  - name: gang
  - {}
"""
    examination = examine_policy(text)
    assert examination.policy is None
    assert sorted(place.line for place in examination.faults) == [7, 8, 15]
    assert [place.line for place in examination.warnings] == [2, 9, 12, 14]
    assert [(part.line, part.name) for part in examination.unknown] == [
        (1, "alocate"),
        (1, "prempt"),
        (10, "binpak"),
    ]
    assert [place.line for place in examination.notices] == [1, 1, 2, 9, 10, 12, 14]
    assert refusal(text) == (examination.faults[0].line, examination.faults[0].reason)


def test_an_examination_of_a_good_text_gives_the_policy_and_its_warnings() -> None:
    text = with_plugin("- name: binpack", "  arguments: {binpack.cpu: 1.5}")
    examination = examine_policy(text)
    assert (examination.policy, examination.faults) == (parse_policy(text), ())
    assert examination.policy is not None
    assert examination.warnings == examination.policy.warnings


def test_an_examination_ends_after_so_many_faults() -> None:
    text = with_plugin(*("- nme: binpack" for _ in range(3 * FAULTS_LIMIT)))
    assert len(examine_policy(text).faults) == FAULTS_LIMIT
    assert len(examine_policy("[").faults) == 1


@each_case(
    ("written", "factor", "warned"),
    [
        ("", Fraction(6, 5), ""),
        ("{overcommit-factor: 2}", 2, ""),
        ("{overcommit-factor: 1.05}", Fraction(21, 20), ""),
        (
            "{overcommit-factor: 0.9}",
            Fraction(6, 5),
            "overcommit-factor is not from 1 to 1,000,000; 1.2 is used",
        ),
        ("{overcommit-factor: .inf}", Fraction(6, 5), "overcommit-factor is not from 1 to"),
        ("{overcommit-factor: .nan}", Fraction(6, 5), "overcommit-factor is not from 1 to"),
        (
            "{overcommit-factor: '2'}",
            Fraction(6, 5),
            'overcommit-factor is the text "2", not a number; 1.2',
        ),
        ("{factor: 2}", Fraction(6, 5), 'overcommit has no argument "factor"; it is ignored'),
    ],
)
def test_the_factor_of_overcommit(written: str, factor: Fraction, warned: str) -> None:
    lines = ["- name: overcommit", *([f"  arguments: {written}"] if written else [])]
    policy = parse_policy(with_plugin(*lines).replace("allocate", "enqueue, allocate"))
    assert policy.overcommit == factor
    assert [place.reason[: len(warned)] for place in policy.warnings] == ([warned] if warned else [])


def test_only_enqueue_asks_overcommit_and_it_may_be_switched_off() -> None:
    assert parse_policy(with_plugin("- name: overcommit")).overcommit is None
    off = with_plugin("- name: overcommit", "  enableJobEnqueued: false").replace("allocate", "enqueue")
    assert parse_policy(off).overcommit is None
    assert parse_policy(VOLCANOS_POLICY).overcommit == Fraction(6, 5)
    assert parse_policy(VOLCANOS_POLICY).shares_by_weight
    assert not parse_policy(with_plugin("- name: capacity")).shares_by_weight


@each_case(
    ("actions", "switches", "warned"),
    [
        ("allocate, reclaim", "", True),
        ("allocate, reclaim", ", enablePreemptable: false", True),
        ("allocate, reclaim", ", enableReclaimable: true", False),
        ("allocate, reclaim", ", enableReclaimable: false", False),
        ("allocate, preempt", "", False),
    ],
)
def test_who_writes_priority_beside_reclaim_is_told_that_it_does_not_gate_that(
    actions: str, switches: str, *, warned: bool
) -> None:
    text = f"actions: {actions}\ntiers: [{{plugins: [{{name: priority{switches}}}]}}]"
    found = [place.reason for place in parse_policy(text).warnings]
    assert [reason for reason in found if "does not gate action reclaim" in reason] == found
    assert bool(found) is warned
