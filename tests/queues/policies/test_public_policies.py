"""Policies in the shapes that people have (`public_policies.yaml`): what a check and admission say of
each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubectl_queue.policies.config_map import NAME
from kubectl_queue.policies.manifest_check import FileCheck, check_policies
from queues.admission import policy_edits
from queues.policies.policy_set import GLOBAL_KEY
from queues.policies.policy_texts import read_policies
from queues.policies.scheduler_conf import examine_policy
from tests.support import yaml_texts
from tests.support.cases import each_case
from tests.support.paths import ROOT

TABLE = ROOT / "tests" / "queues" / "policies" / "public_policies.yaml"
CASES: list[Mapping[str, Any]] = list(yaml_texts.load(TABLE.read_text()))
NAMES = [case["name"] for case in CASES]
#: What is said of most policies with `reclaim`; `test_scheduler_conf` has its cases.
NOT_GATED = "plugin priority does not gate action reclaim"


def of(case: Mapping[str, Any], field: str) -> list[str]:
    return list(case.get(field, ()))


def checked(case: Mapping[str, Any], content: str) -> FileCheck:
    """Checked as a file, which has the faults and the warnings that the case names, and no others."""
    check = check_policies(content, name=NAME)
    assert bool(check.faults) == bool(case.get("refused")), check.faults
    return check


def as_config_map(case: Mapping[str, Any]) -> str:
    lines = "".join(f"    {line}\n" for line in case["text"].splitlines())
    return f"kind: ConfigMap\nmetadata: {{name: {NAME}}}\ndata:\n  {case.get('key', GLOBAL_KEY)}: |\n{lines}"


def as_helm_values(case: Mapping[str, Any]) -> str:
    lines = "".join(f"    {line}\n" for line in case["text"].splitlines())
    return f"custom:\n  scheduler_config_override: |\n{lines}"


def test_there_are_forty_shapes_and_each_says_what_it_means_there_and_here() -> None:
    assert len(CASES) >= 40
    assert len(set(NAMES)) == len(CASES)
    assert all(case["there"] and case["here"] for case in CASES)


@each_case("case", CASES, NAMES)
def test_the_names_that_are_not_known_and_those_that_do_nothing(case: Mapping[str, Any]) -> None:
    found = examine_policy(case["text"])
    if case.get("refused"):
        assert case["refused"] in str(found.faults[0])
        return
    assert found.faults == ()
    assert [part.name for part in found.unknown] == of(case, "unknown")
    assert [part.name for part in found.idle] == of(case, "idle")


@each_case("case", CASES, NAMES)
def test_a_check_says_each_once_with_its_line_in_every_kind_of_file(case: Mapping[str, Any]) -> None:
    files = [case["text"]]
    if not {"\t", "\ufeff"} & set(case["text"]):  # which a block of a manifest cannot have
        files += [as_config_map(case), as_helm_values(case)]
    for content in files:
        check = checked(case, content)
        if case.get("refused"):
            assert case["refused"] in check.faults[0].text
            continue
        texts = [finding.text for finding in check.warnings if finding.policy or content == case["text"]]
        texts = [text for text in texts if NOT_GATED not in text]
        named = [*of(case, "unknown"), *of(case, "idle")]
        others = [each for each in of(case, "ignored") if "counts only for queues" not in each]
        assert len(texts) == len(named) + len(others)
        for name in named:
            assert sum(name.split()[0] in text for text in texts) >= 1, name


@each_case("case", CASES, NAMES)
def test_admission_takes_it_with_a_warning_for_each_kind(case: Mapping[str, Any]) -> None:
    edit = policy_edits.check_policies({}, {case.get("key", GLOBAL_KEY): case["text"]})
    if case.get("refused"):
        assert case["refused"] in edit.refusal
        return
    assert edit.refusal == ""
    kinds = ("unknown", "idle")
    others = [text for text in edit.warnings if NOT_GATED not in text]
    assert len(others) == sum(bool(of(case, kind)) for kind in kinds) + len(of(case, "ignored"))
    said = "\n".join(edit.warnings)
    for text in (*of(case, "unknown"), *of(case, "idle"), *of(case, "ignored")):
        assert text in said


@each_case("case", CASES, NAMES)
def test_at_start_it_counts_if_admission_takes_it(case: Mapping[str, Any]) -> None:
    """The same text, stored before: by an older version, or while no server was there."""
    policies = read_policies({case.get("key", GLOBAL_KEY): case["text"]})
    [entry] = policies.entries.values()
    assert (entry.policy is None) == bool(case.get("refused"))
    assert (policies.common is None) == ("key" in case)
