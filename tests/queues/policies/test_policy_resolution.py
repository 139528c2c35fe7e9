"""Which policy counts, and what is said of names that cannot be used."""

from __future__ import annotations

import pytest

from queues.policies import policy_texts
from queues.policies.model import Policy
from queues.policies.policy_report import policy_lines
from queues.policies.policy_set import GLOBAL_KEY, KEYS_LIMIT, NO_POLICIES, PolicySet
from queues.policies.policy_texts import read_policies
from queues.policies.resolution import PolicySource, resolve_policy
from queues.policies.scheduler_conf import parse_policy
from tests.support.cases import each_case

PACK = "actions: allocate\ntiers: [{plugins: [{name: binpack}]}]"
SPREAD = "actions: allocate\ntiers: [{plugins: [{name: nodeorder}]}]"
PLAIN = "actions: allocate, backfill\ntiers: [{}]"
BAD = "actions: alocate\ntiers: [{}]"

ALL = read_policies({GLOBAL_KEY: PLAIN, "pack": PACK, "spread": SPREAD, "bad": BAD})


@each_case(
    ("job", "chain", "source", "name", "queue"),
    [
        ("", [("research", "")], PolicySource.GLOBAL, GLOBAL_KEY, ""),
        ("", [("research", "pack")], PolicySource.QUEUE, "pack", "research"),
        ("", [("research", "pack"), ("root", "spread")], PolicySource.QUEUE, "pack", "research"),
        (
            "",
            [("research", ""), ("team", "spread"), ("root", "pack")],
            PolicySource.ANCESTOR,
            "spread",
            "team",
        ),
        ("spread", [("research", "pack")], PolicySource.JOB, "spread", ""),
        ("none", [("research", "pack")], PolicySource.QUEUE, "pack", "research"),
        ("none", [("research", "none"), ("root", "pack")], PolicySource.ANCESTOR, "pack", "root"),
        ("none", [("research", "none")], PolicySource.GLOBAL, GLOBAL_KEY, ""),
        ("bad", [("research", "bad"), ("root", "")], PolicySource.GLOBAL, GLOBAL_KEY, ""),
        # the global policy is for those that name none; it has no name of its own
        (GLOBAL_KEY, [("research", "")], PolicySource.GLOBAL, GLOBAL_KEY, ""),
    ],
)
def test_the_nearest_policy_that_can_be_used_counts(
    job: str, chain: list[tuple[str, str]], source: PolicySource, name: str, queue: str
) -> None:
    resolution = resolve_policy(ALL, job=job, chain=chain)
    assert (resolution.source, resolution.name, resolution.queue) == (source, name, queue)
    assert resolution.policy is not None


def test_without_a_config_map_there_is_no_policy() -> None:
    resolution = resolve_policy(read_policies(None, ALL), job="", chain=[("research", "")])
    assert (resolution.source, resolution.policy, resolution.problems) == (PolicySource.NONE, None, ())


def test_each_name_that_cannot_be_used_is_said() -> None:
    resolution = resolve_policy(ALL, job="none", chain=[("research", "bad"), ("root", "pack")])
    assert [(problem.name, problem.queue, problem.missing) for problem in resolution.problems] == [
        ("none", "", True),
        ("bad", "research", False),
    ]
    assert "there is no policy" in resolution.problems[0].text
    assert 'line 1: there is no action "alocate"' in resolution.problems[1].text


def test_a_wrong_text_keeps_the_last_good_policy() -> None:
    good = read_policies({"pack": PACK})
    broken = read_policies({"pack": BAD}, good)
    resolution = resolve_policy(broken, chain=[("research", "pack")])
    assert resolution.policy is good.entries["pack"].policy
    assert resolution.stale
    still = read_policies({"pack": BAD + " "}, broken)
    assert still.entries["pack"].policy is good.entries["pack"].policy
    mended = read_policies({"pack": SPREAD}, still)
    assert mended.entries["pack"].problem is None
    assert mended.entries["pack"].policy != good.entries["pack"].policy


def test_a_policy_that_is_gone_counts_no_more() -> None:
    gone = read_policies({}, read_policies({"pack": PACK}))
    assert resolve_policy(gone, chain=[("research", "pack")]).source is PolicySource.NONE


def test_a_fault_of_the_reader_concerns_one_policy_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(text: str) -> Policy:
        if text != PACK:
            raise KeyError(text)
        return parse_policy(text)

    good = read_policies({"pack": SPREAD, "spread": SPREAD})
    monkeypatch.setattr(policy_texts, "parse_policy", faulty)
    read = read_policies({"pack": PACK, "spread": PLAIN, "new": PLAIN}, good)
    assert read.entries["pack"].policy == parse_policy(PACK)
    assert read.entries["spread"].policy is good.entries["spread"].policy
    assert str(read.entries["new"].problem) == "line 1: the policy cannot be read: KeyError"


def test_a_text_is_read_once() -> None:
    assert read_policies({"pack": PACK, "x": PLAIN}, ALL).entries["pack"] is ALL.entries["pack"]


def test_only_so_many_keys_are_read_and_the_global_one_is_among_them() -> None:
    many = read_policies({GLOBAL_KEY: PLAIN, **{f"a{n:05}": PLAIN for n in range(KEYS_LIMIT)}})
    assert len(many.entries) == KEYS_LIMIT
    assert many.common is not None


def test_whether_any_policy_scores() -> None:
    assert ALL.scores
    assert not read_policies({GLOBAL_KEY: PLAIN, "bad": BAD}).scores
    assert PolicySet() == NO_POLICIES


def test_only_keys_that_hold_a_policy_are_read() -> None:
    """`actions` or `tiers` on top, in any form that YAML has for that; the global key whatever it holds."""
    texts = {
        "plain": PLAIN,
        "indented": "# ours\n---\n  tiers: []\n",
        "json": '{"metrics": {}, "actions": "allocate"}',
        "quoted": "'actions' : x",
        "broken": "a: [\nactions: x",
        "tabs": "\tactions: x",
        "mark": "\ufeffactions: x",
        "below": "a:\n  actions: x\n  tiers: y",
        "far": " " * 900_000 + "a: b\nactions: x",
        "wide": ("# " + " " * 2_000 + "\n") * 400 + "a: {b: c}",
        "item": "- actions: x",
        "properties": "actions=x\n#actions:",
        "empty": "",
        GLOBAL_KEY: "",
    }
    read = read_policies(texts)
    assert set(read.entries) == {GLOBAL_KEY, "plain", "indented", "json", "quoted", "broken", "tabs", "mark"}
    assert read.others == {"below", "far", "wide", "item", "properties", "empty"}


def test_a_key_that_held_a_policy_and_holds_none_now_keeps_it() -> None:
    """What was never a policy that counts, and is none now, is somebody else's."""
    read = read_policies({"pack": "gone", "bad": "gone"}, read_policies({"pack": PACK, "bad": BAD}))
    assert read.entries.keys() == {"pack"}
    assert read.entries["pack"].stale


def test_a_queue_that_names_a_key_without_a_policy_is_told() -> None:
    policies = read_policies({GLOBAL_KEY: PLAIN, "x.properties": "a=b"})
    resolution = resolve_policy(policies, chain=[("research", "x.properties"), ("root", "")])
    assert (resolution.source, resolution.name) == (PolicySource.GLOBAL, GLOBAL_KEY)
    [problem] = resolution.problems
    assert not problem.missing
    assert problem.text == 'key "x.properties" holds no policy: it has neither actions nor tiers'


def test_keys_of_somebody_else_take_no_room_from_policies() -> None:
    texts = {**{f"a{n:05}": "b=c" for n in range(2 * KEYS_LIMIT)}, "z": PLAIN}
    read = read_policies(texts)
    assert (list(read.entries), len(read.others)) == (["z"], KEYS_LIMIT)


@pytest.mark.parametrize(
    ("keys", "misplaced"),
    [
        (["volcano-scheduler-ci.conf", "packed"], ["volcano-scheduler-ci.conf"]),
        (["default-scheduler.conf"], ["default-scheduler.conf"]),
        (
            ["volcano-scheduler.yaml", "agent-scheduler.conf"],
            ["agent-scheduler.conf", "volcano-scheduler.yaml"],
        ),
        (["kube-batch-conf.yaml"], ["kube-batch-conf.yaml"]),
        (["default-scheduler.conf", GLOBAL_KEY], []),
        (["packed.conf", "schedulers.conf", "scheduler"], []),
    ],
    ids=str,
)
def test_keys_that_may_be_meant_as_the_global_one(keys: list[str], misplaced: list[str]) -> None:
    read = read_policies(dict.fromkeys(keys, PLAIN))
    assert list(read.misplaced) == misplaced
    problems = [line.text for line in policy_lines(read) if line.is_problem]
    assert len(problems) == bool(misplaced)


def test_what_is_said_of_policies() -> None:
    idle = "actions: allocate\ntiers: [{plugins: [{name: sla}, {name: acme}]}]"
    good = read_policies({GLOBAL_KEY: PLAIN, "pack": PACK})
    lines = policy_lines(read_policies({GLOBAL_KEY: BAD, "pack": BAD + " ", "idle": idle, "new": BAD}, good))
    assert [(line.key, line.is_problem, line.text.partition("): ")[2] or line.text) for line in lines] == [
        (GLOBAL_KEY, True, "its last good text counts"),
        ("idle", False, 'policy "idle": plugin acme is not known here and passed over'),
        ("idle", False, 'policy "idle": plugin sla does nothing here'),
        ("new", True, "the next in the order counts"),
        ("pack", True, "its last good text counts"),
    ]
    [line] = policy_lines(read_policies({GLOBAL_KEY: BAD}))
    assert line.text.endswith("no policy counts for queues that name none")
