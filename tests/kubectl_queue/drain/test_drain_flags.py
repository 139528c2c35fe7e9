"""The flags of drain, hold and stop: what they set, and what is refused before anything is sent."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kubectl_queue.cli.flags import Flags, parse
from kubectl_queue.cli.label_selectors import parse_pod_selector
from kubectl_queue.commands import verbs
from kubectl_queue.drain.spec_flags import drain_fields
from kubectl_queue.errors import UsageError
from kubectl_queue.main import main
from queues.apimachinery.label_selectors import parse_selector
from queues.drain.model import parse_drain_spec
from tests.support.cases import each_case
from tests.support.plugin.harness import NOW

NOBODY = "--server=http://127.0.0.1:1"
#: A label that only some have, one that all have, one that none has.
LABELS = [{"app": "db", "tier": "web"}, {"app": "web"}, {}]


def read(*words: str) -> Flags:
    return parse(["research", *words], verbs.load("drain").flags, command="kubectl queue drain")


def drain(*words: str) -> dict[str, Any]:
    return drain_fields(read(*words), now=NOW, command="kubectl queue drain")


def test_a_flag_that_is_not_given_sets_nothing() -> None:
    assert drain() == {}


@each_case(
    ("flag", "field", "value"),
    [
        ("--keep-bare-pods", "barePods", "Keep"),
        ("--keep-bare-pods=false", "barePods", "Evict"),
        ("--evict-broken-gangs", "brokenGangs", "Evict"),
        ("--evict-broken-gangs=false", "brokenGangs", "Keep"),
        ("--rate=0.5", "rate", 0.5),
        ("--rate=20", "rate", 20),
        ("--in-flight=7", "inFlight", 7),
        ("--grace-period=0", "gracePeriodSeconds", 0),
        ("--delete-after-deadline", "afterDeadline", "Delete"),
        ("--delete-after-deadline=false", "afterDeadline", "Keep"),
        ("--scale-after-deadline", "afterDeadline", "Scale"),
        ("--scale-after-deadline=false", "afterDeadline", "Keep"),
        ("--deadline=2h", "deadline", "2030-01-01T14:00:00Z"),
        ("--deadline=2030-01-01T18:00:00+02:00", "deadline", "2030-01-01T16:00:00Z"),
        ("--keep=app=db", "keep", {"matchLabels": {"app": "db"}}),
        ("--keep=none", "keep", None),
        ("--rate=none", "rate", None),
        ("--in-flight=none", "inFlight", None),
        ("--grace-period=none", "gracePeriodSeconds", None),
    ],
)
def test_each_flag_sets_its_field(flag: str, field: str, value: object) -> None:
    assert drain(flag) == {field: value}


def test_the_deadline_of_a_time_of_day_is_the_next_one() -> None:
    at = (NOW + timedelta(minutes=30)).astimezone()
    assert drain(f"--deadline={at:%H:%M}") == {"deadline": "2030-01-01T12:30:00Z"}


def test_deadline_none_removes_the_deadline_and_the_deletion_at_it() -> None:
    assert drain("--deadline=none") == {"deadline": None, "afterDeadline": "Keep"}


@each_case(
    ("words", "why"),
    [
        (["--deadline=0s"], "the --deadline, 2030-01-01T12:00:00Z, is not in the future"),
        (["--deadline=2029-12-31T00:00:00Z"], "is not in the future"),
        (["--deadline=2500-01-01T00:00:00Z"], "is more than a century away"),
        (["--deadline=none", "--delete-after-deadline"], "exclude each other"),
        (["--deadline=none", "--scale-after-deadline"], "--scale-after-deadline and --deadline=none exclude"),
        (["--scale-after-deadline", "--delete-after-deadline"], "exclude each other"),
    ],
)
def test_an_impossible_deadline_is_refused_by_the_clock_of_the_server(words: list[str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        drain(*words)


@pytest.mark.parametrize("verb", ["drain", "stop"])
@pytest.mark.parametrize(
    ("flag", "why"),
    [
        ("--rate=-1", "-1 is not a number above 0"),
        ("--rate=0", "0 is not a number above 0"),
        ("--rate=1001", "1001 is not a number above 0 and up to 1000"),
        ("--rate=nan", "it must be a number above 0"),
        ("--rate=inf", "it must be a number above 0"),
        ("--rate=1e3", "it must be a number above 0"),
        ("--rate=", "it must be a number above 0"),
        ("--rate=٣", "it must be a number above 0"),
        ("--in-flight=0", "it must be a whole number from 1 to 2147483647"),
        ("--in-flight=-3", "it must be a whole number from 1"),
        ("--in-flight=1.5", "it must be a whole number from 1"),
        ("--in-flight=99999999999", "it must be a whole number from 1"),
        ("--grace-period=-1", "it must be a whole number from 0 to 2147483647"),
        ("--grace-period=30s", "it must be a whole number from 0"),
        ("--grace-period=1.5", "it must be a whole number from 0"),
        ("--deadline=10", "it needs a unit, s, m, h or d, as in --deadline 2h"),
        ("--deadline=-1h", "it must be a span such as 2h"),
        ("--deadline=soon", "it must be a span such as 2h"),
        ("--deadline=25:00", "it must be a span such as 2h"),
        ("--deadline=", "it must be a span such as 2h"),
        ("--deadline=99999999d", "it is longer than a century"),
        ("--keep=", "an empty selector selects every pod"),
        ("--keep=app=d b", "is no part of a selector"),
        ("--keep=app in db", "is no part of a selector"),
        ("--keep=app=db,", "is no part of a selector"),
        ("--keep=!app=db", "is no part of a selector"),
        ("--keep=size>3", "compares, which a selector in an object cannot"),
        ("--keep=a b", "is no part of a selector"),
        ("--keep=-app=db", "is not the key of a label"),
        ("--keep=a/b/c=db", "is not the key of a label"),
        ("--keep=app=-db", "is not the value of a label"),
        ("--keep=app=" + "x" * 64, "is not the value of a label"),
        ("--keep=app in (-)", "is not the value of a label"),
        ("--keep=\x1b[2J", "is not the key of a label"),
        ("--keep-bare-pods=perhaps", "it must be true or false"),
        ("--delete-after-deadline=perhaps", "it must be true or false"),
        ("--keep-already-running=perhaps", "it must be true or false"),
        ("--yes=perhaps", "it must be true or false"),
        ("--wait=closed", "it must be true or false"),
        ("--for=10", "it needs a unit"),
        ("--until=25:00", "it must be a time such as 18:30"),
        ("--dry-run=maybe", 'it must be "none", "server", or "client"'),
    ],
)
def test_a_bad_value_is_refused_with_the_name_of_its_flag(
    capsys: pytest.CaptureFixture[str], verb: str, flag: str, why: str
) -> None:
    """Nothing is asked of a server, and what was given cannot steer the terminal."""
    assert main([verb, "research", NOBODY, flag]) == 1
    out, err = capsys.readouterr()
    assert (out, why in err, flag.partition("=")[0] in err) == ("", True, True), err
    assert all(c.isprintable() or c == "\n" for c in err)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["drain", "b", "--for=1h", "--until=18:30"], "--for and --until exclude each other"),
        (["hold", "b", "--for=1h", "--until=18:30"], "--for and --until exclude each other"),
        (["stop", "b", "--keep-already-running", "--rate=3"], "--rate and --keep-already-running exclude"),
        (["drain", "b", "--keep=a", "--keep-already-running"], "--keep and --keep-already-running exclude"),
        (["drain"], "at least one NAME is required"),
        (["hold", "b", "--all"], "name cannot be provided"),
        (["hold", "b", "--rate=3"], "unknown flag: --rate"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(
    capsys: pytest.CaptureFixture[str], words: list[str], why: str
) -> None:
    assert main([*words, NOBODY]) == 1
    assert why in capsys.readouterr().err


def test_stop_takes_the_flags_of_drain() -> None:
    """It is the same for those who know another plugin."""
    assert verbs.load("stop").flags == verbs.load("drain").flags


@each_case(
    ("text", "held"),
    [
        ("app=db", {"matchLabels": {"app": "db"}}),
        ("app==db , tier=web", {"matchLabels": {"app": "db", "tier": "web"}}),
        ("app=", {"matchLabels": {"app": ""}}),
        ("app!=db", {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}),
        ("app", {"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
        ("! app", {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}),
        (
            "app in (db, web)",
            {"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "web"]}]},
        ),
        ("app notin(db)", {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}),
        ("in in (in)", {"matchExpressions": [{"key": "in", "operator": "In", "values": ["in"]}]}),
        (
            "example.com/tier=web,!app",
            {
                "matchLabels": {"example.com/tier": "web"},
                "matchExpressions": [{"key": "app", "operator": "DoesNotExist"}],
            },
        ),
        (
            "app=db,app=web",
            {
                "matchLabels": {"app": "db"},
                "matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}],
            },
        ),
    ],
)
def test_a_selector_is_read_as_kubectl_reads_it(text: str, held: dict[str, Any]) -> None:
    assert parse_pod_selector(text) == held


@each_case(
    ("text", "selected"),
    [
        ("app=db", [True, False, False]),
        ("app!=db", [False, True, True]),
        ("app in (db,web)", [True, True, False]),
        ("app notin (db,web)", [False, False, True]),
        ("tier", [True, False, False]),
        ("!tier,app=web", [False, True, False]),
        ("app=db,app=web", [False, False, False]),
    ],
)
def test_keep_selects_what_kubectl_selects_with_the_same_text(text: str, selected: list[bool]) -> None:
    """By the rules that the controller goes by."""
    keep = parse_selector(parse_pod_selector(text))
    assert keep is not None
    assert [keep.selects(labels) for labels in LABELS] == selected


def test_the_rules_can_read_what_the_flags_set() -> None:
    """All at once."""
    words = ["--keep=app=db", "--keep-bare-pods", "--rate=5", "--in-flight=9", "--deadline=1h"]
    found = parse_drain_spec(drain(*words, "--delete-after-deadline", "--grace-period=5"))
    assert (found.unreadable, found.rate, found.in_flight, found.keep_bare) == ("", 5, 9, True)
    assert (found.deadline, found.delete_after_deadline) == (NOW + timedelta(hours=1), True)
