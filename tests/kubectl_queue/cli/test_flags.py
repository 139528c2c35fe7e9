"""The command line is read as pflag reads it, and what is wrong is said in its words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kubectl_queue.cli.flags import (
    Flag,
    Flags,
    bool_flag,
    duration_flag,
    first_name,
    names,
    parse,
)
from kubectl_queue.cli.options import (
    COMMON,
    DRY_RUN,
    OUTPUT,
    UNCHANGED,
    Output,
    OutputTemplate,
)
from kubectl_queue.cli.run import split
from kubectl_queue.commands import verbs
from kubectl_queue.commands.create import spec
from kubectl_queue.errors import UsageError
from queues.admission.field_validation import field_refusal
from tests.support.cases import each_case

FLAGS = (
    Flag(name="reason", help="", short="r"),
    Flag(name="as-group", help="", repeated=True),
    bool_flag("wait", "", short="w"),
    duration_flag("timeout", "", default=timedelta(seconds=60)),
    OUTPUT,
    DRY_RUN,
)


def read(*words: str) -> Flags:
    return parse(words, FLAGS, command="kubectl queue test")


@each_case(
    "words", [["--reason", "x"], ["--reason=x"], ["-r", "x"], ["-rx"], ["-r=x"], ["-wr", "x"], ["-wrx"]]
)
def test_a_value_may_stand_in_every_place_that_kubectl_allows(words: list[str]) -> None:
    assert read(*words).text("reason") == "x"


def test_a_switch_does_not_swallow_the_name_behind_it() -> None:
    found = read("--wait", "b", "-w", "c")
    assert (found.on("wait"), found.names) == (True, ("b", "c"))


def test_a_switch_takes_its_value_behind_an_equals_sign() -> None:
    assert not read("--wait=false").on("wait")


def test_the_last_one_wins_and_repeatable_flags_add_up() -> None:
    found = read("--reason=a", "--as-group=g", "--reason=b", "--as-group", "h")
    assert (found.text("reason"), found.many("as-group")) == ("b", ("g", "h"))


def test_everything_behind_two_dashes_is_a_name() -> None:
    assert read("a", "--", "--wait", "-x").names == ("a", "--wait", "-x")


def test_what_is_not_given_has_its_default_and_is_known_not_to_be_given() -> None:
    found = read()
    assert (found.duration("timeout"), found.has("timeout"), found.text("reason")) == (
        timedelta(seconds=60),
        False,
        "",
    )


@each_case(
    ("words", "said"),
    [
        (["--nope"], "error: unknown flag: --nope"),
        (["-Z"], "error: unknown shorthand flag: 'Z' in -Z"),
        (["--reason"], "error: flag needs an argument: --reason"),
        (["-r"], "error: flag needs an argument: 'r' in -r"),
        (["--wait=zz"], 'error: invalid argument "zz" for "-w, --wait" flag: it must be true or false'),
        (["-o", "zz"], "table, wide, json, yaml, name"),
        (["--dry-run=zz"], '"none", "server", or "client"'),
        (["--timeout=5x"], "90s, 30m, 2h or 7d"),
    ],
)
def test_what_is_wrong_is_said_with_where_to_read_on(words: list[str], said: str) -> None:
    with pytest.raises(UsageError) as error:
        read(*words)
    assert said in str(error.value)
    assert str(error.value).endswith("See 'kubectl queue test --help' for usage.")


def test_a_bare_dry_run_is_told_from_one_with_a_value() -> None:
    assert [read("--dry-run").text("dry-run"), read("--dry-run=server").text("dry-run")] == [
        UNCHANGED,
        "server",
    ]


def test_output_formats_are_those_of_the_table() -> None:
    words = [word for word in Output if word not in (Output.TEMPLATE, Output.ICS)]
    assert [read(f"-o{word}").value("output") for word in words] == words


@pytest.mark.parametrize("text", ["jsonpath={.a}", "jsonpath-file=f", "go-template={{.a}}=b"])
def test_a_template_is_kept_as_it_is_for_kubectl(text: str) -> None:
    assert read("-o", text).value("output") == OutputTemplate(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("jsonpath", "as in -o jsonpath={.metadata.name}"),
        ("go-template=", "as in -o go-template={{.metadata.name}}"),
        ("custom-columns=A:.a", "allowed formats are"),
        ("template", "allowed formats are"),
    ],
)
def test_a_template_that_is_none_is_refused_and_so_are_columns_where_kubectl_has_none(
    text: str, said: str
) -> None:
    """As `kubectl patch`; `get` and `list` take them, as `kubectl get`."""
    with pytest.raises(UsageError, match="output") as error:
        read("-o", text)
    assert said in str(error.value)
    columns = "custom-columns=A:.a"
    assert parse(["-o", columns], verbs.load("list").flags, command="").value("output") == OutputTemplate(
        columns
    )


@each_case(
    ("words", "verb", "rest"),
    [
        (["list", "-o", "name"], "list", ["-o", "name"]),
        (["-n", "x", "list"], "list", ["-n", "x"]),
        (["--context=c", "--insecure-skip-tls-verify", "get", "b"], "get", None),
        (["help", "suspend"], "suspend", ["--help"]),
        ([], "", []),
        (["help"], "", ["--help"]),
    ],
)
def test_flags_of_every_verb_may_stand_before_it(words: list[str], verb: str, rest: list[str] | None) -> None:
    found, others = split(words)
    assert found == verb
    assert rest is None or others == rest


def test_an_unknown_verb_is_answered_with_near_ones() -> None:
    with pytest.raises(UsageError, match=r"(?s)unknown command \"suspnd\".*Did you mean this\?\n\tsuspend"):
        split(["suspnd", "b"])


@pytest.mark.parametrize(
    ("word", "command"),
    [("edit", "kubectl edit queue"), ("update", "kubectl edit queue"), ("patch", "kubectl patch queue")],
)
def test_what_kubectl_is_for_is_answered_with_its_command(word: str, command: str) -> None:
    with pytest.raises(UsageError, match=rf"(?s)\"{word}\".*Did you mean this\?\n\t{command}\n"):
        split([word, "b"])


def test_the_value_of_a_flag_is_not_taken_for_the_verb() -> None:
    assert first_name(["--user", "list", "get"], COMMON) == 2


def test_every_verb_of_the_table_has_its_module_and_no_flag_twice() -> None:
    for name in verbs.TABLE:
        flags = (*verbs.load(name).flags, *COMMON)
        assert len({flag.name for flag in flags}) == len(flags)
        shorts = [flag.short for flag in flags if flag.short]
        assert len(set(shorts)) == len(shorts)


def test_names_may_come_from_the_output_of_another_command() -> None:
    given = ["queue.scheduling.volcano.sh/a", "queue/b", "queues/c", "q/d", "d"]
    assert names(given, command="") == ("a", "b", "c", "d")


def test_an_empty_name_is_refused_for_it_would_mean_all() -> None:
    with pytest.raises(UsageError, match="resource name may not be empty"):
        names(["queue/"], command="")


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("a_B", '"_" may not be in it; names are'),
        ("x" * 254, "it has 254 characters; names are"),
        ("-a", ": names"),
    ],
)
def test_what_is_wrong_with_a_name_is_shown(name: str, wrong: str) -> None:
    with pytest.raises(UsageError, match="invalid resource name") as error:
        names([name], command="")
    assert wrong in str(error.value)


def test_create_sends_what_was_given_and_nothing_else() -> None:
    words = ["b", "--parent=a", "--weight", "3", "--reclaimable=false", "--stop-policy=hold"]
    words += ["--state=suspended", "--capability", "cpu=4,memory=8Gi", "--guarantee=cpu=500m"]
    words += ["--parked=recreate"]
    flags = verbs.load("create").flags
    assert spec(parse(words, flags, command="")) == {
        "parent": "a",
        "weight": 3,
        "reclaimable": False,
        "stopPolicy": "Hold",
        "state": "Suspended",
        "capability": {"cpu": "4", "memory": "8Gi"},
        "guarantee": {"resource": {"cpu": "500m"}},
        "parked": "Recreate",
    }


def test_until_may_be_said_with_a_zone() -> None:
    flags = parse(["--until=2030-01-01T13:00:00Z"], verbs.load("suspend").flags, command="")
    at = flags.value("until")(datetime(2030, 1, 1, tzinfo=UTC))
    assert at == datetime(2030, 1, 1, 13, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("team=a", {"matchLabels": {"team": "a"}}),
        (
            "team in (a, b),!frozen",
            {
                "matchExpressions": [
                    {"key": "team", "operator": "In", "values": ["a", "b"]},
                    {"key": "frozen", "operator": "DoesNotExist"},
                ]
            },
        ),
        (
            "kubernetes.io/metadata.name notin (lab)",
            {
                "matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["lab"]},
                ]
            },
        ),
    ],
)
def test_create_reads_a_selector_of_namespaces_as_kubectl_does(text: str, held: dict[str, object]) -> None:
    flags = verbs.load("create").flags
    found = spec(parse(["q", "--namespace-selector", text], flags, command=""))
    assert found == {"namespaceSelector": held}
    assert field_refusal({}, found) is None


@each_case(
    ("text", "why"),
    [
        ("", "an empty selector selects every namespace"),
        ("team>3", "compares"),
        ("team=a b", "is no part of a selector"),
        ("sluice.dev/guard=on", "is written by sluice itself"),
        (",".join(f"l{n}=v" for n in range(17)), "17 labels, and 16 are allowed"),
    ],
)
def test_what_is_no_selector_of_namespaces_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=f"(?s)--namespace-selector.*{why}|{why}"):
        parse(["q", f"--namespace-selector={text}"], verbs.load("create").flags, command="")
