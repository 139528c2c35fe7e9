"""What TAB offers after `kubectl queue`: what can be done, in the protocol of kubectl."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kubectl_queue.cli.completion import completions, main
from kubectl_queue.cli.flags import Flags
from kubectl_queue.commands import verbs
from kubectl_queue.errors import UnreachableError
from kubectl_queue.objects.queues import QueueObjects
from tests.support.cases import each_case
from tests.support.plugin.harness import item, snapshot

QUEUES = snapshot(
    item("root", status={"state": "Open"}),
    item("default", status={"state": "Open"}),
    item("runs", parent="root", status={"state": "Open"}),
    item(
        "suspended",
        parent="root",
        state="Suspended",
        reason="quota\x1b change",
        status={"state": "Suspended"},
    ),
    item("below", parent="suspended", status={"state": "Suspended"}),
    item("held", parent="root", stopPolicy="Hold", status={"state": "Open"}),
    item("closed", parent="root", state="Closed", status={"state": "Closed"}),
)


def offered(*words: str, queues: QueueObjects = QUEUES) -> tuple[list[str], str]:
    """The candidates without their descriptions, and the directive."""
    *lines, directive = completions(words, read_queues=lambda given: queues)
    return [line.partition("\t")[0] for line in lines], directive


@each_case(
    ("verb", "names"),
    [
        ("resume", ["held", "suspended"]),
        ("open", ["closed", "suspended"]),
        ("close", ["below", "default", "held", "runs", "suspended"]),
        ("suspend", ["below", "default", "held", "root", "runs"]),
        ("hold", ["below", "closed", "default", "root", "runs", "suspended"]),
        ("drain", ["below", "closed", "default", "held", "root", "runs", "suspended"]),
        ("delete", ["closed"]),
        ("why", ["below", "closed", "default", "held", "root", "runs", "suspended"]),
        ("list", []),
        ("create", []),
    ],
)
def test_a_verb_is_offered_the_queues_that_it_can_do_something_with(verb: str, names: list[str]) -> None:
    assert offered(verb, "") == (names, ":4")


def test_the_letters_that_are_there_narrow_it_and_what_is_named_is_not_offered_again() -> None:
    assert offered("resume", "su") == (["suspended"], ":4")
    assert offered("resume", "suspended", "") == (["held"], ":4")
    assert offered("resume", "queue/suspended", "") == (["held"], ":4")


def test_a_queue_is_shown_with_its_state_and_reason_and_nothing_that_steers_a_terminal() -> None:
    lines = completions(["resume", ""], read_queues=lambda given: QUEUES)
    assert lines == ["held\tOpen, Hold", "suspended\tSuspended (quota  change)", ":4"]


def test_the_verbs_come_first_and_flags_where_one_is_begun() -> None:
    assert offered("") == ([*verbs.TABLE], ":4")
    assert offered("re") == (["reclaim", "resume"], ":4")
    assert offered("--context", "x", "res") == (["resume"], ":4")
    assert offered("suspend", "--re") == (["--reason=", "--request-timeout="], ":4")
    assert offered("suspend", "--reas") == (["--reason="], ":6")  # the value follows without a space
    assert offered("resume", "--dry-run=s") == (["--dry-run=server"], ":4")
    assert offered("get", "-o", "j") == (["json"], ":4")


def test_values_of_flags_are_offered_where_they_are_known() -> None:
    assert offered("create", "new", "--parent", "su") == (["suspended"], ":4")
    assert offered("create", "new", "--parent=su") == (["--parent=suspended"], ":4")
    assert offered("get", "--kubeconfig", "") == ([], ":0")
    assert offered("suspend", "runs", "--reason", "") == ([], ":4")


def test_policy_has_words_of_its_own() -> None:
    assert offered("policy", "") == (["list", "show", "check", "explain"], ":4")
    assert offered("policy", "explain", "ru") == (["runs"], ":4")
    assert offered("policy", "check", "") == ([], ":0")


def test_windows_has_words_and_then_queues_that_have_some_and_these() -> None:
    nightly = {
        "name": "nightly",
        "stopPolicy": "Hold",
        "schedule": "0 2 * * *",
        "duration": "2h",
        "timeZone": "UTC",
    }
    queues = snapshot(item("runs", windows=[nightly]), item("stays"))
    assert offered("windows", "", queues=queues) == (["start", "skip", "extend", "runs", "stays"], ":4")
    assert offered("windows", "skip", "", queues=queues) == (["runs"], ":4")
    assert offered("windows", "skip", "queue/runs", "", queues=queues) == (["nightly"], ":4")
    assert offered("windows", "skip", "runs", "nightly", "", queues=queues) == ([], ":4")
    assert offered("windows", "runs", "", queues=queues) == ([], ":4")


@each_case("words", [(), ("nonsense", ""), ("resume", "--nope", ""), ("resume", "--", ""), ("--=", "x")])
def test_what_cannot_be_completed_offers_no_files(words: tuple[str, ...]) -> None:
    lines, directive = offered(*words)
    assert directive == ":4"
    assert lines == [] or words in ((), ("resume", "--", ""))


def test_without_an_answer_nothing_is_offered() -> None:
    def fail(given: Flags) -> QueueObjects:
        raise UnreachableError("no answer")

    assert completions(["resume", ""], read_queues=fail) == [":4"]


def test_it_prints_nothing_but_the_directive_where_there_is_no_cluster(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main(["resume", "--kubeconfig=/no-such-file", ""]) == 0
    assert capfd.readouterr() == (":4\n", "")


def test_kubectl_finds_it_beside_the_plugin() -> None:
    """By this name on PATH."""
    program = Path(sys.executable).with_name("kubectl_complete-queue")
    environ = {"PATH": os.environ["PATH"], "KUBECONFIG": "/no-such-file"}
    done = subprocess.run([program, "res"], env=environ, capture_output=True, text=True, check=True)
    assert (
        done.stdout
        == "resume\tUndo a suspension and a stop policy, and leave out the window that is on.\n:4\n"
    )
