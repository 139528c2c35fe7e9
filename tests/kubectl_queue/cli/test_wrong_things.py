"""Sixty wrong things that people type, each with an answer that says what to do."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import TextIO

import pytest

from kubectl_queue.access.client import ObjectList
from kubectl_queue.cli.flags import parse
from kubectl_queue.cli.options import COMMON
from kubectl_queue.commands.verbs import load
from kubectl_queue.errors import QueueError
from kubectl_queue.main import main
from kubectl_queue.output.console import Console
from kubectl_queue.session import Session
from tests.support.plugin.harness import StoredObjects, StoredQueues, item, plugin, run_command

#: Nobody answers there; what gets that far says so.
NOBODY = "--server=http://127.0.0.1:1"
#: What is typed after `kubectl queue`, and what the answer has to say.
TYPED: Sequence[tuple[str, str]] = (
    # Flags.
    ("limit lab", "Did you mean this?\n\tkubectl patch queue"),
    ("set lab --capability cpu=4", "Did you mean this?\n\tkubectl patch queue"),
    (
        "suspend lab --from 22:00",
        "a stop that begins later is a change window: docs/tasks/stop-by-the-calendar.md",
    ),
    ("drain lab --at 22:00", "a stop that begins later is a change window"),
    ("windows skipp lab nightly", "Did you mean this?\n\tskip"),
    ("suspend lab --reson x", "Did you mean this?\n\t--reason"),
    ("suspend lab --reasons x", "Did you mean this?\n\t--reason"),
    ("suspend lab --Reason x", "Did you mean this?\n\t--reason"),
    ("suspend lab --message x", "Did you mean this?\n\t--reason"),
    ("suspend lab --duration 2h", "Did you mean this?\n\t--for"),
    ("suspend lab --untill 18:30", "Did you mean this?\n\t--until"),
    ("suspend lab --force", "Did you mean this?\n\t--yes"),
    ("suspend lab --wiat", "Did you mean this?\n\t--wait"),
    ("suspend lab --dryrun", "Did you mean this?\n\t--dry-run"),
    ("suspend lab --label team=a", "Did you mean this?\n\t--selector"),
    ("suspend lab -wait", "unknown shorthand flag: 'w' in -wait\n\nDid you mean this?\n\t--wait"),
    ("list --json", "Did you mean this?\n\t--output json"),
    ("list --wide", "Did you mean this?\n\t--output wide"),
    ("list --follow", "Did you mean this?\n\t--watch"),
    ("list -A", "queues have no namespace"),
    ("list --all-namespaces", "queues have no namespace"),
    ("create lab --quota cpu=4", "Did you mean this?\n\t--capability"),
    ("create lab --capabilty cpu=4", "Did you mean this?\n\t--capability"),
    ("drain lab --keep-bare-pod", "Did you mean this?\n\t--keep-bare-pods"),
    ("list --contxt prod", "Did you mean this?\n\t--context"),
    ("list --colour", "unknown flag: --colour\nSee 'kubectl queue list --help'"),
    ("suspend lab --reason", "flag needs an argument: --reason"),
    # Durations and times.
    ("suspend lab --for 2hours", "did you mean 2h? it must be a number with a unit, such as 90s, 30m, 2h"),
    ("suspend lab --for '2 hours'", "did you mean 2h?"),
    ("suspend lab --for 1week", "did you mean 7d?"),
    ("suspend lab --for 90minutes", "did you mean 90m?"),
    ("suspend lab --for '1h 30m'", "did you mean 1h30m?"),
    ("suspend lab --for 2", "it needs a unit, s, m, h or d, as in --for 30m"),
    ("suspend lab --for 18:30", "it is a time: --until 18:30"),
    ("suspend lab --for tomorrow", "it must be a number with a unit"),
    ("suspend lab --until 2h", "it is a duration, and not a time"),
    ("suspend lab --until 6pm", "did you mean 18:00?"),
    ("suspend lab --until 18.30", "did you mean 18:30?"),
    ("suspend lab --until tomorrow", "it must be a time such as 18:30"),
    ("suspend lab --until 2030-13-01T10:00", "month must be in 1..12"),
    ("suspend lab --for 1h --until 18:30", "--for and --until exclude each other"),
    ("suspend lab --timeout 2minutes", "did you mean 2m?"),
    # Verbs.
    ("pause lab", "Did you mean this?\n\tsuspend"),
    ("unsuspend lab", "Did you mean this?\n\tresume"),
    ("remove lab", "Did you mean this?\n\tdelete"),
    ("edit lab", "Did you mean this?\n\tkubectl edit queue"),
    ("suspned lab", "Did you mean this?\n\tsuspend"),
    ("describe lab", "Did you mean this?\n\tget"),
    # Names and kinds.
    ("suspend", "at least one NAME is required, or --all, or --selector"),
    ("suspend lab --all", "name cannot be provided when a selector or --all is specified"),
    ("suspend job/train", '"job/train" is no queue; which queue it is in says: kubectl queue why job/train'),
    ("drain deploy/web", "kubectl queue why deploy/web"),
    ("history pod/x", "kubectl queue why pod/x"),
    ("suspend deplyoment/web", "which queue it is in says: kubectl queue why deployment/web"),
    ("suspend Lab", '"L" may not be in it; '),
    ("suspend lab,web", '"," may not be in it; '),
    ("suspend my_lab", '"_" may not be in it; '),
    ("why", "name what waits: pod/NAME, job/NAME, podgroup/NAME, namespace/NAME or a queue's NAME"),
    ("why pod", "which Pod? give its name: kubectl queue why pod/NAME"),
    ("why pod x deploy/y", "TYPE NAME and TYPE/NAME cannot be mixed"),
    ("list lab", "list takes no names; to see some: kubectl queue get NAME"),
    ("tree a b", "tree takes one NAME at most"),
    ("create a b", "exactly one NAME is required, got 2"),
    ("delete root", "kubectl queue suspend root"),
    # Values.
    ("create lab --weight heavy", "it must be a whole number"),
    ("create lab --capability cpu=2gb", '"2gb" of "cpu=2gb" is no quantity, such as 4, 500m or 8Gi'),
    ("create lab --capability 4", '"4" is not RESOURCE=QUANTITY, such as cpu=4,memory=8Gi'),
    ("create lab --capability cpu=4,cpu=8", 'resource "cpu" is named twice'),
    ("create lab --state Paused", "it must be Open, Suspended or Closed"),
    ("create lab --reclaimable=maybe", "it must be true or false"),
    ("list -o table,wide", "allowed formats are: table, wide"),
    ("suspend lab --dry-run=yes", 'it must be "none", "server", or "client"'),
)


@pytest.mark.parametrize(("typed", "answer"), TYPED, ids=[typed for typed, _ in TYPED])
def test_what_is_wrong_is_answered_with_what_is_right(
    capsys: pytest.CaptureFixture[str], typed: str, answer: str
) -> None:
    """One error, exit code 1, and nothing is asked of the API server."""
    words = [word.strip("'") for word in _split(typed)]
    assert main([words[0], NOBODY, *words[1:]]) == 1
    out, err = capsys.readouterr()
    assert (out, answer in err) == ("", True), err
    assert err.startswith("error: ")
    assert "Traceback" not in err


def _split(typed: str) -> list[str]:
    """As a shell does it, for words in single quotes."""
    parts = typed.split("'")
    return [word for at, part in enumerate(parts) for word in ([part] if at % 2 else part.split())]


def test_sixty_things_are_tried() -> None:
    assert len(dict(TYPED)) >= 60


# What takes a cluster to be seen.


def failed(*words: str, client: StoredObjects | None = None) -> str:
    """What is said of it."""
    try:
        done = run_command(StoredQueues(item("root"), item("research")), *words, client=client)
    except QueueError as exc:
        return str(exc)
    assert done.code == 1
    return done.err


def test_a_queue_that_is_not_there_is_answered_with_its_neighbours() -> None:
    for words in (("get", "reserch"), ("tree", "reserch"), ("usage", "reserch"), ("suspend", "reserch")):
        assert "Did you mean this?\n\tresearch" in failed(*words), words


def test_a_name_without_a_kind_is_answered_with_the_objects_that_have_it() -> None:
    train = {"metadata": {"name": "train", "namespace": "team"}}
    there = StoredObjects({"/apis/batch/v1/namespaces/team/jobs/train": train})
    assert "A name alone is a queue's. Did you mean this?\n\tkubectl queue why job/train -n team" in failed(
        "why", "train", "-n", "team", client=there
    )
    assert "of a pod or a workload say its kind: kubectl queue why job/train -n team" in failed(
        "why", "train", "-n", "team"
    )


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("deplyoment", ["deployment"]),
        ("Deploymnet", ["deployment"]),
        ("deployements", ["deployment"]),
        ("statefullset", ["statefulset"]),
        ("statefulstes", ["statefulset"]),
        ("cronjbo", ["cronjob"]),
        ("daemon-set", ["daemonset"]),
        ("podgruop", ["podgroup"]),
        ("podd", ["pod"]),
        ("namespcae", ["namespace"]),
        ("deplyoment.apps", ["deployment"]),
        ("jobb", ["job"]),
        ("replicaste", ["replicaset"]),
        ("raycluster", []),
        ("workflow", []),
        ("service", []),
    ],
)
def test_a_kind_that_is_misspelt_is_answered_with_the_one_that_was_meant(word: str, meant: list[str]) -> None:
    """Its pods are looked for first: it could be a kind of somebody else's."""
    pods = "/api/v1/namespaces/team/pods"
    for client in (StoredObjects({pods: {"items": []}}), StoredObjects({}, forbidden=[pods])):
        said = failed("why", f"{word}/web", "-n", "team", client=client)
        asked = "".join(f"\t{kind}/web\n" for kind in meant).rstrip("\n")
        assert said.partition("Did you mean this?\n")[2].rstrip("\n") == asked


def test_a_kind_that_is_misspelt_before_a_name_is_no_queue() -> None:
    said = failed("why", "deplyoment", "web", "-n", "team")
    assert "Did you mean this?\n\tkubectl queue why deployment/web" in said


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def asked(*words: str, answer: str, terminal: bool = True) -> tuple[StoredQueues, str]:
    """The queues afterwards, and what was said."""
    api = StoredQueues(item("root"), item("lab", status={"pods": {"running": 3}}))
    verb = load(words[0])
    err: TextIO = Terminal() if terminal else io.StringIO()
    source: TextIO = Terminal(answer) if terminal else io.StringIO(answer)
    session = Session(
        parse(words[1:], (*verb.flags, *COMMON), command=verb.command),
        console=Console(io.StringIO(), err, source),
        environ={},
    )
    session.__dict__.update(api=api, client=StoredObjects({}))
    try:
        verb.execute(session, session.flags)
    except QueueError as exc:
        err.write(str(exc))
    assert isinstance(err, io.StringIO)
    return api, err.getvalue()


@pytest.mark.parametrize("verb", ["suspend", "hold", "drain"])
def test_a_stop_of_root_is_asked_about_at_a_terminal(verb: str) -> None:
    """It stops every queue of the cluster. A script means what it says, and so does --yes."""
    api, said = asked(verb, "root", answer="n\n")
    assert "Root is above all 2 queues of this cluster: this stops them all, and " in said
    assert ("evicts what runs in them (3 pods)" in said) is (verb == "drain")
    assert said.endswith("error: nothing was changed")
    assert api.patches == []
    assert asked(verb, "root", answer="y\n")[0].patches != []
    assert asked(verb, "root", "--yes", answer="n\n")[0].patches != []
    assert asked(verb, "root", answer="", terminal=False)[0].patches != []


@pytest.mark.parametrize("verb", ["suspend", "hold", "drain"])
def test_a_stop_of_all_queues_is_asked_about_at_a_terminal(verb: str) -> None:
    api, said = asked(verb, "--all", answer="n\n")
    assert "This stops 1 queue of this cluster. Do it? [y/N]" in said
    assert api.patches == []
    assert asked(verb, "--all", answer="y\n")[0].patches != []
    assert asked(verb, "--all", "--yes", answer="n\n")[0].patches != []
    assert asked(verb, "--all", answer="", terminal=False)[0].patches != []
    assert "Do it?" not in asked("resume", "--all", answer="n\n")[1]


@pytest.mark.parametrize(
    "words", [("suspend", "lab"), ("resume", "root"), ("suspend", "root", "--dry-run=client")]
)
def test_nothing_else_is_asked(words: tuple[str, ...]) -> None:
    assert "Root is above" not in asked(*words, answer="n\n")[1]


class NoneSelected(StoredQueues):
    def list(self, *, selector: str = "", name: str = "") -> ObjectList:
        return ObjectList([], "7") if selector else super().list(name=name)


@pytest.mark.parametrize("verb", ["suspend", "hold", "drain", "close"])
def test_a_stop_of_queues_with_labels_that_none_has_fails(verb: str) -> None:
    """Else a script goes on as if something were stopped."""
    with pytest.raises(QueueError, match="no queue has these labels: nothing was stopped"):
        run_command(NoneSelected(item("root"), item("lab")), verb, "-l", "x=z")


@pytest.mark.parametrize("verb", ["resume", "open"])
def test_an_end_of_stops_with_labels_that_none_has_does_nothing(verb: str) -> None:
    done = run_command(NoneSelected(item("root"), item("lab")), verb, "-l", "x=z")
    assert (done.code, done.err) == (0, "No resources found\n")


def test_what_is_not_there_is_said_with_the_namespace() -> None:
    said = failed("why", "deploy/web", client=StoredObjects({}))
    assert said.rstrip().endswith('not found in namespace "default"; for another one give -n')


# How it looks elsewhere.


@pytest.mark.parametrize("locale", ["C", "POSIX", "de_DE.UTF-8", "tr_TR.UTF-8", "ja_JP.eucJP", "xx"])
def test_each_locale_reads_the_same(locale: str) -> None:
    """Turkish has another small I, and German another decimal point."""
    environ = {"LANG": locale, "LC_ALL": locale, "LANGUAGE": locale.partition("_")[0]}
    done = plugin("suspend", "lab", NOBODY, "--For=1.5h", environ=environ)
    assert done.stderr.startswith("error: unknown flag: --For\n\nDid you mean this?\n\t--for\n")


def test_a_narrow_terminal_without_colours_has_whole_words_and_no_codes() -> None:
    """60 columns: an error is a line that the terminal folds, and nothing is drawn over another thing."""
    environ = {"COLUMNS": "60", "TERM": "dumb", "NO_COLOR": "1"}
    told = _at_a_terminal("suspend", "lab", "--for=2hours", columns=60, environ=environ)
    assert "did you mean 2h?" in told
    assert "\x1b" not in told
    assert "--help' for usage." in told


#: What shows something, of the queues below.
SHOWN = (
    ("list",),
    ("list", "-owide"),
    ("tree",),
    ("usage",),
    ("why", "lab"),
    ("why", "research"),
    ("history", "lab"),
    ("windows",),
    ("suspend", "lab", "--dry-run=client"),
)


def shown(*words: str, out: TextIO) -> None:
    change = {"by": "Zoë", "field": "state", "from": "Open", "to": "Suspended", "at": "2030-01-01T11:00:00Z"}
    status = {
        "changes": [change],
        "quota": {"used": {"cpu": "7"}, "waiting": 1234},
        "pods": {"running": 1},
        "observedGeneration": 1,
    }
    lab = item("lab", parent="root", state="Suspended", capability={"cpu": "7500m"}, status=status)
    lab["spec"]["windows"] = [
        {"name": "n", "schedule": "0 2 * * *", "duration": "2h", "timeZone": "UTC", "stopPolicy": "Hold"}
    ]
    verb = load(words[0])
    session = Session(
        parse(words[1:], (*verb.flags, *COMMON), command=verb.command),
        console=Console(out, io.StringIO(), io.StringIO()),
        environ={},
    )
    api = StoredQueues(item("root"), lab, item("research", parent="lab"))
    session.__dict__.update(api=api, client=StoredObjects({}))
    assert verb.execute(session, session.flags) == 0


@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_results_have_no_colours_and_no_width_of_their_own(words: tuple[str, ...]) -> None:
    """So a terminal of 60 columns, and one without colours, shows what a pipe gets: it folds whole lines."""
    terminal, pipe = Terminal(), io.StringIO()
    shown(*words, out=terminal)
    shown(*words, out=pipe)
    assert "\x1b" not in terminal.getvalue()
    assert "\r" not in terminal.getvalue()
    assert (terminal.getvalue() == pipe.getvalue()) is (words != ("usage",)), "its bars are for people"


class TerminalOf(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("encoding", ["ascii", "iso8859-1", "euc-jp", "cp1252"])
@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_results_are_drawn_with_letters_that_each_locale_has(words: tuple[str, ...], encoding: str) -> None:
    """A name that somebody wrote may lack letters there, nothing of ours does."""
    raw = io.BytesIO()
    out = TerminalOf(raw, encoding=encoding)
    shown(*words, out=out)
    text = raw.getvalue().decode(encoding).replace("Zo?", "").replace("is it running?", "")
    assert text
    assert "?" not in text


def _at_a_terminal(*words: str, columns: int, environ: dict[str, str]) -> str:
    import fcntl  # noqa: PLC0415 - what only a terminal needs
    import pty  # noqa: PLC0415
    import struct  # noqa: PLC0415
    import subprocess  # noqa: PLC0415
    import termios  # noqa: PLC0415

    from tests.support.plugin.harness import PLUGIN  # noqa: PLC0415

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(
        [PLUGIN, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environ},
    ) as running:
        os.close(theirs)
        told = b""
        try:
            while part := os.read(ours, 4096):
                told += part
        except OSError:  # Linux says so where the other end is closed
            pass
        assert running.wait(60) == 1
    os.close(ours)
    return told.decode()
