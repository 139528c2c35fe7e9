"""`kubectl queue policy check`: what is wrong with the policies of a file, with the lines of the file."""

from __future__ import annotations

import base64
import json

from kubectl_queue.policies.config_map import NAME, NAMESPACE
from kubectl_queue.policies.manifest_check import FILE_LIMIT, FileCheck, check_policies
from queues.policies.policy_set import GLOBAL_KEY, KEYS_LIMIT
from tests.support.cases import each_case
from tests.support.paths import ROOT
from tests.support.plugin.harness import plugin

BAD = """\
actions: "allocate, prempt"
tiers:
- plugins:
  - nme: binpack
  - name: nodeorder
    arguments: {leastrequested.weight: "5"}
"""


#: In one line of YAML.
GOOD_LINE = "'{actions: allocate, tiers: [{}]}'"


def config_map(data: str, name: str = NAME) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n{data}"


def block(key: str, text: str = BAD) -> str:
    return f"  {key}: |\n" + "".join(f"    {line}\n" for line in text.splitlines())


def found(content: str) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    check = check_policies(content, name=NAME)
    return (
        [(finding.line, finding.policy) for finding in check.faults],
        [(finding.line, finding.policy) for finding in check.warnings],
    )


def only(check: FileCheck) -> tuple[int, str]:
    (fault,) = check.faults
    return fault.line, fault.text


def test_a_text_alone_is_a_policy() -> None:
    assert found(BAD) == ([(4, "")], [(1, ""), (6, "")])


def test_the_lines_are_those_of_the_manifest() -> None:
    """Of every document and of every key; other objects in the file do not matter."""
    content = "# policies\nkind: Namespace\n---\n" + config_map(
        block("one") + block("two", "actions: allocate\ntiers: [{}]")
    )
    assert found(content) == ([(13, "one")], [(10, "one"), (15, "one")])
    for line, word in ((10, "prempt"), (13, "nme"), (15, '"5"')):
        assert word in content.splitlines()[line - 1]


def test_a_list_is_read_as_kubectl_writes_it() -> None:
    """JSON has the text in one line: the finding says which line of the text it means."""
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": {"one": BAD}}
    content = json.dumps({"apiVersion": "v1", "kind": "List", "items": [item]}, indent=1)
    check = check_policies(content, name=NAME)
    place = next(n for n, line in enumerate(content.splitlines(), 1) if "prempt" in line)
    assert [finding.line for finding in (*check.faults, *check.warnings)] == [place, place, place]
    assert [finding.text.partition(":")[0] for finding in (*check.faults, *check.warnings)] == [
        "line 4 of the text",
        "line 1 of the text",
        "line 6 of the text",
    ]


def test_of_several_config_maps_the_one_of_the_policies_counts() -> None:
    """Where none has that name, all of them, with a warning: somebody's policies may have another."""
    others = config_map(block("other"), name="other")
    assert found(f"{others}---\n{config_map(block('good', '{actions: allocate, tiers: [{}]}'))}") == ([], [])
    assert found(others) == ([(10, "other")], [(1, ""), (7, "other"), (12, "other")])
    assert "the ConfigMap is other; the server reads" in check_policies(others, name=NAME).warnings[0].text
    elsewhere = config_map(block("good", GOOD_LINE[1:-1])).replace(
        "metadata:", "metadata:\n  namespace: kube-system"
    )
    [warning] = check_policies(elsewhere, name=NAME, namespace=NAMESPACE).warnings
    assert (
        "the ConfigMap is kube-system/volcano-scheduler-configmap; the server reads volcano-sy"
        in warning.text
    )


@each_case(
    ("content", "line", "text"),
    [
        ("", 1, "the file is empty"),
        ("# nothing\n---\n", 1, "the file is empty"),
        ("kind: ConfigMap\ndata: {\n", 3, "not YAML: "),
        ("kind: Queue\n---\nkind: Namespace\n", 1, "there is no policy in it, but Namespace, Queue; "),
        ("colour: red\nshape: {round: true}\n", 1, "there is no policy in it; "),
        ("- a\n- b\n", 1, "a policy is a list"),
        (config_map("  volcano-scheduler.conf: 5\n"), 6, "its value is no text; "),
        (
            config_map("").replace("data", "binaryData") + "  volcano-scheduler.conf: x\n",
            6,
            "its value in binaryData ",
        ),
        (config_map("  one: {actions: allocate}\n"), 6, "its value is no text; "),
        (config_map("  volcano-scheduler.conf: |\n\n"), 7, "the policy is empty"),
        ("a" * FILE_LIMIT, 1, "the file is longer than"),
        ("[" * 100_000, 1, "values are nested deeper than 64"),
        ("a: \x01\n", 1, "not YAML: "),
    ],
)
def test_what_is_no_file_of_policies_says_what_it_is(content: str, line: int, text: str) -> None:
    at, reason = only(check_policies(content, name=NAME))
    assert (at, reason[: len(text)]) == (line, text)
    assert "\n" not in reason


def test_an_alias_bomb_ends_soon() -> None:
    """The same for one that stands in Helm's values, of which every text is looked at."""
    bomb = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    _, reason = only(check_policies("a0: &a0 [x]\n" + bomb, name=NAME))
    assert "there is no policy in it" in reason
    text = "actions: allocate\ntiers: [{}]\na0: &a0 [x]\n" + bomb
    assert "more than" in only(check_policies(text, name=NAME))[1]


def test_more_keys_than_are_read_are_a_fault() -> None:
    """As at admission."""
    keys = "".join(f"  k{number}: {GOOD_LINE}\n" for number in range(KEYS_LIMIT + 2))
    line, reason = only(check_policies(config_map(keys), name=NAME))
    assert (line, reason) == (5 + KEYS_LIMIT + 1, "there are more policies than the 1,000 that are read")


def test_a_config_map_without_data_and_a_key_twice() -> None:
    assert found(config_map("")) == ([], [(1, "")])
    again = block("one", "actions: allocate\ntiers: [{}]")
    assert found(config_map(again + again)) == ([(9, "one")], [])


HELM = """\
# Values of Volcano's chart.
basic:
  scheduler_config_file: "config/volcano-scheduler.conf"
custom:
  scheduler_replicas: 2
  scheduler_config_override: |
    actions: "allocate, prempt"
    tiers:
    - plugins:
      - nme: x
  admission_config_override: |
    resourceGroups: []
"""


def test_helm_values_have_their_policy_under_its_path() -> None:
    path = "custom.scheduler_config_override"
    assert found(HELM) == ([(10, path)], [(7, path)])
    below = "volcano:\n" + "".join(f"  {line}\n" for line in HELM.splitlines())
    assert found(below) == ([(11, f"volcano.{path}")], [(8, f"volcano.{path}")])
    release = "kind: HelmRelease\nspec:\n  values:\n" + "".join(f"    {line}\n" for line in HELM.splitlines())
    assert found(release) == ([(13, f"spec.values.{path}")], [(10, f"spec.values.{path}")])
    application = "kind: Application\nspec:\n  values: |\n" + "".join(
        f"    {line}\n" for line in HELM.splitlines()
    )
    assert found(application) == ([(13, path)], [(10, path)])


def test_values_without_a_policy_say_which_one_counts() -> None:
    check = check_policies("basic: {scheduler_config_file: config/volcano-scheduler-ci.conf}\n", name=NAME)
    assert (check.policies, check.faults) == ([], [])
    assert 'put its policy under key "volcano-scheduler-ci.conf"' in check.warnings[0].text
    check = check_policies("custom:\n  scheduler_config_override: ~\n", name=NAME)
    assert (check.policies, check.faults, check.warnings[0].line) == ([], [], 2)
    assert "the chart's own policy counts" in check.warnings[0].text


def test_a_part_of_a_manifest_is_read() -> None:
    """As documentation shows it: `data` alone, or what is below it; keys of somebody else beside it."""
    for indent, head in ((0, "data:\n"), (-2, "")):
        lines = (block(GLOBAL_KEY, "actions: x\ntiers: [{}]") + block("notes", "a: b")).splitlines()
        content = head + "".join(f"{line[-indent:]}\n" for line in lines)
        check = check_policies(content, name=NAME)
        assert (check.policies, len(check.faults), len(check.warnings)) == ([GLOBAL_KEY], 1, 0)
        assert check.faults[0].line == (3 if head else 2)


def test_each_document_is_taken_as_what_it_is() -> None:
    bare = "# ours\nactions: allocate\ntiers:\n- plugins:\n  - nme: x\n"
    content = f"{bare}---\n{config_map(block('one', bare))}---\n{HELM}---\n{bare}"
    check = check_policies(content, name=NAME)
    assert [finding.line for finding in check.faults] == [5, 17, 28, 36]
    for finding in check.faults:
        assert "nme: x" in content.splitlines()[finding.line - 1]


def test_keys_of_somebody_else_and_binary_data() -> None:
    """A policy may stand in `binaryData`; a template has to be rendered before."""
    encoded = base64.b64encode(BAD.encode()).decode()
    content = config_map(block("ours.properties", "a=b\n[c]\n")) + f"binaryData:\n  packed: {encoded}\n"
    check = check_policies(content, name=NAME)
    assert (check.policies, [finding.line for finding in check.faults]) == (["packed"], [10])
    assert check.faults[0].text.startswith("line 4 of the text: a plugin has no name")
    empty = check_policies(config_map(block("ours.properties", "a=b")), name=NAME)
    assert [finding.text for finding in empty.warnings] == ["no key of the ConfigMap holds a policy"]
    assert "helm template" in only(check_policies("a: {{ .Values.x }}\nb: [\n", name=NAME))[1]


def test_a_policy_under_the_key_of_another_distribution_is_named() -> None:
    [warning] = check_policies(
        config_map(block("default-scheduler.conf", GOOD_LINE[1:-1])), name=NAME
    ).warnings
    assert 'the one under "default-scheduler.conf" counts only for queues that name it' in warning.text


def test_the_command_needs_no_cluster_and_its_exit_code_says_whether_there_is_a_fault() -> None:
    good = plugin("policy", "check", str(ROOT / "manifests/examples/policies/policies.yaml"))
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout.endswith(" 0 faults, 0 warnings\n")
    missing = plugin("policy", "check", "/no/such/file")
    assert (missing.returncode, missing.stderr) == (1, "error: /no/such/file: No such file or directory\n")
    assert "check takes one FILE" in plugin("policy", "check").stderr
