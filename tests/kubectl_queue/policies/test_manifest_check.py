"""`kubectl queue policy check`: what is wrong with the policies of a file, with the lines of the file."""

from __future__ import annotations

import json

from kubectl_queue.policies.config_map import NAME
from kubectl_queue.policies.manifest_check import FILE_LIMIT, FileCheck, check_policies
from queues.policies.policy_set import KEYS_LIMIT
from tests.support.cases import each_case
from tests.support.paths import ROOT
from tests.support.plugin.harness import plugin

BAD = """\
actions: "allocate, prempt"
tiers:
- plugins:
  - name: binpak
  - name: nodeorder
    arguments: {leastrequested.weight: "5"}
"""


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
    assert found(BAD) == ([(1, ""), (4, "")], [(6, "")])


def test_the_lines_are_those_of_the_manifest() -> None:
    """Of every document and of every key; other objects in the file do not matter."""
    content = "# policies\nkind: Namespace\n---\n" + config_map(
        block("one") + block("two", "actions: allocate")
    )
    assert found(content) == ([(10, "one"), (13, "one")], [(15, "one")])
    for line, word in ((10, "prempt"), (13, "binpak"), (15, '"5"')):
        assert word in content.splitlines()[line - 1]


def test_a_list_is_read_as_kubectl_writes_it() -> None:
    """JSON has the text in one line: the finding says which line of the text it means."""
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": {"one": BAD}}
    content = json.dumps({"apiVersion": "v1", "kind": "List", "items": [item]}, indent=1)
    check = check_policies(content, name=NAME)
    place = next(n for n, line in enumerate(content.splitlines(), 1) if "prempt" in line)
    assert [finding.line for finding in check.faults] == [place, place]
    assert [finding.text.partition(":")[0] for finding in check.faults] == [
        "line 1 of the text",
        "line 4 of the text",
    ]


def test_of_several_config_maps_the_one_of_the_policies_counts() -> None:
    """Where none has that name, all of them: somebody's policies may have another."""
    others = config_map(block("other"), name="other")
    assert found(f"{others}---\n{config_map(block('good', 'actions: allocate'))}") == ([], [])
    assert [name for _, name in found(others)[0]] == ["other", "other"]


@each_case(
    ("content", "line", "text"),
    [
        ("", 1, "the file is empty"),
        ("# nothing\n---\n", 1, "the file is empty"),
        ("kind: ConfigMap\ndata: {\n", 3, "not YAML: "),
        ("kind: Queue\n---\nkind: Namespace\n", 1, "there is no ConfigMap in it, but Namespace, Queue; "),
        ("- a\n- b\n", 1, "a policy is a list"),
        (config_map("  one: 5\n"), 6, "its value is no text; "),
        (config_map("  one: {actions: allocate}\n"), 6, "its value is no text; "),
        (config_map("  one: |\n\n"), 7, "the policy is empty"),
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
    bomb = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    _, reason = only(check_policies("a0: &a0 [x]\n" + bomb, name=NAME))
    assert "more than" in reason or "deeper" in reason


def test_more_keys_than_are_read_are_a_fault() -> None:
    """As at admission."""
    keys = "".join(f"  k{number}: 'actions: allocate'\n" for number in range(KEYS_LIMIT + 2))
    line, reason = only(check_policies(config_map(keys), name=NAME))
    assert (line, reason) == (5 + KEYS_LIMIT + 1, "there are more keys than the 1,000 that are read")


def test_a_config_map_without_data_and_a_key_twice() -> None:
    assert found(config_map("")) == ([], [(1, "")])
    again = block("one", "actions: allocate")
    assert found(config_map(again + again)) == ([(8, "one")], [])


def test_the_command_needs_no_cluster_and_its_exit_code_says_whether_there_is_a_fault() -> None:
    good = plugin("policy", "check", str(ROOT / "manifests/examples/policies/policies.yaml"))
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout.endswith(" 0 faults, 0 warnings\n")
    missing = plugin("policy", "check", "/no/such/file")
    assert (missing.returncode, missing.stderr) == (1, "error: /no/such/file: No such file or directory\n")
    assert "check takes one FILE" in plugin("policy", "check").stderr
