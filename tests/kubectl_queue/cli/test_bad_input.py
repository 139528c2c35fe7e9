"""Whatever stands on the command line: one error in words, exit code 1, nothing is asked of the server."""

from __future__ import annotations

import os
import re

import pytest

from kubectl_queue.commands import verbs
from kubectl_queue.main import main
from tests.support.plugin.harness import plugin

NAMELESS = {"convert", "list", "ui", "status", "version", "policy", "uninstall"}
NAMING = [name for name in verbs.TABLE if name not in NAMELESS]
#: Nobody answers there; what gets that far says so.
NOBODY = "--server=http://127.0.0.1:1"
REFUSED = "connection to the server 127.0.0.1:1 was refused"


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What the command says as it fails; it is no stack trace and cannot steer the terminal."""
    assert main(list(words)) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert "mistake in kubectl queue" not in err
    assert all(c.isprintable() or c in "\n\t" for c in err)
    assert 0 < len(err) < 1000
    return err


BAD_NAMES = (
    *("A_B", ".", "..", "a/b", "a%2fb", "-", " ", "é", "\u202ea", "a\nb", "\x1b[2J"),
    *("x" * 254, "x" * 100_000),
)


@pytest.mark.parametrize("verb", NAMING)
def test_a_name_that_no_object_can_have_is_refused(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    """Each verb says so itself, before it reads a kubeconfig or asks anybody."""
    for name in BAD_NAMES:
        err = said(capsys, verb, NOBODY, "--", name)
        assert "invalid resource name" in err or "is not a type of object" in err, name[:20]
        assert REFUSED not in err, name[:20]


@pytest.mark.parametrize("action", ["show", "explain"])
def test_a_name_that_no_policy_queue_or_pod_can_have_is_refused(
    capsys: pytest.CaptureFixture[str], action: str
) -> None:
    for name in BAD_NAMES:
        if (action, name) in {("show", name) for name in ("A_B", ".", "..", "-")}:
            continue  # a key of a ConfigMap may be of these characters
        err = said(capsys, "policy", action, NOBODY, "--", name)
        assert re.search("invalid (resource|policy) name|explains queues and pods", err), name[:20]
        assert REFUSED not in err, name[:20]


@pytest.mark.parametrize("verb", verbs.TABLE)
def test_a_flag_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    """With where to read on."""
    for flag in ("--nope", "--nope=\x1b", "-Z", "---", "-=", "--" + "x" * 100_000):
        err = said(capsys, verb, NOBODY, flag)
        assert err.startswith("error: unknown "), flag[:20]
        assert err.endswith(f"See 'kubectl queue {verb} --help' for usage.\n"), flag[:20]


@pytest.mark.parametrize("verb", verbs.TABLE)
def test_a_timeout_that_is_no_time_is_refused_by_each_verb(
    capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    """What is wrong with the other flags that say who and where is kubectl's to say."""
    assert "it must be a single integer in seconds" in said(capsys, verb, NOBODY, "--request-timeout=-1")


@pytest.mark.parametrize(
    ("flag", "why"),
    [
        ("--for=10", "it needs a unit, s, m, h or d, as in --for 30m"),
        ("--for=0", "it needs a unit"),
        ("--for=-1h", "it must be a number with a unit"),
        ("--for=1e5", "it must be a number with a unit"),
        ("--for=99999999d", "it is longer than a century"),
        ("--for=", "it must be a number with a unit"),
        ("--until=", "it must be a time such as 18:30"),
        ("--until=25:00", "it must be a time such as 18:30"),
        ("--until=0001-01-01", "it must be a time such as 18:30"),
        ("--timeout=1e9", "it must be a number with a unit"),
        ("--wait=perhaps", "it must be true or false"),
        ("--dry-run=maybe", 'it must be "none", "server", or "client"'),
        ("-o=jason", "allowed formats are"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_with_one_that_does(
    capsys: pytest.CaptureFixture[str], flag: str, why: str
) -> None:
    """The error repeats what was given and shows what can be."""
    assert why in said(capsys, "suspend", "research", NOBODY, flag)


@pytest.mark.parametrize("weight", ["x", "1.5", "", "1_000", "٣", "9" * 5000])
def test_a_number_is_made_of_digits(capsys: pytest.CaptureFixture[str], weight: str) -> None:
    """And of so many as a number can have."""
    err = said(capsys, "create", "b", NOBODY, f"--weight={weight}")
    assert "it must be a whole number" in err


@pytest.mark.parametrize(
    ("word", "verb"),
    [
        ("remove", "delete"),
        ("rm", "delete"),
        ("unsuspend", "resume"),
        ("halt", "suspend"),
        ("evict", "drain"),
        ("unclose", "open"),
        ("describe", "get"),
        ("ls", "list"),
        ("log", "history"),
        ("explain", "why"),
        ("suspned", "suspend"),
        ("Close", "close"),
        ("resme", "resume"),
    ],
)
def test_an_unknown_verb_is_answered_with_what_it_means(
    capsys: pytest.CaptureFixture[str], word: str, verb: str
) -> None:
    """Not with what it is spelt like: `remove` is near `resume`, `unsuspend` near `suspend`."""
    assert f"Did you mean this?\n\t{verb}\n" in said(capsys, word, "research")


@pytest.mark.parametrize("word", ["foo", "sett", "x" * 100_000, "\x1b[2J", "é"])
def test_a_verb_that_is_near_none_is_answered_with_none(
    capsys: pytest.CaptureFixture[str], word: str
) -> None:
    """An odd suggestion is worse than none."""
    assert "Did you mean" not in said(capsys, word)


def test_bytes_that_are_no_text_are_refused() -> None:
    """As the shell hands them over: whichever word it is."""
    done = plugin("get", os.fsdecode(b"\xff\xfe"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: word 2 of the command line is not valid UTF-8\n")


@pytest.mark.parametrize(
    ("words", "way_out"),
    [
        (["delete", "root"], "kubectl queue suspend root"),
        (["delete", "default", "--dry-run=client"], "kubectl queue close default"),
    ],
)
def test_the_built_in_queues_are_not_deleted_and_what_to_do_instead_is_said(
    capsys: pytest.CaptureFixture[str], words: list[str], way_out: str
) -> None:
    """The server would refuse it too, without the next step."""
    err = said(capsys, *words, NOBODY)
    assert "queue can not be deleted" in err
    assert way_out in err
