"""open, close, suspend, resume as commands: exit codes and what is printed."""

from __future__ import annotations

import pytest

from kubectl_queue.errors import UsageError
from tests.support import yaml_texts
from tests.support.cases import each_case
from tests.support.plugin.harness import (
    StoredObjects,
    StoredQueues,
    item,
    run_command,
)

CLOSED = item("done", state="Closed", status={"state": "Closed"})


def test_suspend_of_a_closed_queue_fails_and_says_how_to_open_it() -> None:
    api = StoredQueues(CLOSED, item("b"))
    result = run_command(api, "suspend", "done", "b")
    assert (result.code, result.out) == (1, "queue.scheduling.volcano.sh/b suspended\n")
    assert result.err == (
        'error: queue "done" is Closed and cannot be suspended; open it first: kubectl queue open done\n'
    )
    assert [name for name, _ in api.patches] == ["b"]


def test_suspend_of_all_passes_closed_queues_over() -> None:
    """Nothing in them could run."""
    result = run_command(StoredQueues(CLOSED, item("b")), "suspend", "--all")
    assert result.code == 0
    assert "done unchanged (it is Closed and cannot be suspended" in result.out


def test_close_says_closing_though_no_pod_is_left() -> None:
    """A suspended Job has none, and keeps its queue from Closed."""
    api = StoredQueues(item("b", status={"pods": {"running": 2}}), item("idle", status={"pods": {}}))
    result = run_command(api, "close", "b", "idle")
    assert result.out == ("queue.scheduling.volcano.sh/b closing\nqueue.scheduling.volcano.sh/idle closing\n")


def test_a_time_and_a_reason_are_taken_back() -> None:
    queue = item("b", state="Suspended", reason="old", resumeAt="2030-01-01T13:00:00Z")
    api = StoredQueues(queue)
    result = run_command(api, "suspend", "b", "--until=none", "--reason=")
    assert result.out == "queue.scheduling.volcano.sh/b edited (reason, resumeAt)\n"
    assert api.patches[0][1]["spec"] == {"reason": None, "resumeAt": None}


VOLCANO = {
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": {
        "items": [{"metadata": {"name": "volcano-x"}, "webhooks": [{"name": "validatequeue.volcano.sh"}]}]
    }
}


@each_case(
    ("verb", "warned"),
    [("suspend", True), ("close", True), ("hold", False), ("open", False), ("resume", False)],
)
def test_what_volcanos_webhook_would_refuse_to_end_is_warned_of(verb: str, warned: bool) -> None:
    result = run_command(StoredQueues(item("b")), verb, "b", client=StoredObjects(VOLCANO))
    assert result.code == 0
    assert ("Warning: Volcano's webhook (volcano-x) refuses every edit" in result.err) is warned


def test_without_volcanos_webhook_or_the_right_to_look_a_suspend_says_nothing_of_it() -> None:
    other = {
        path: {"items": [{"metadata": {"name": "sluice"}, "webhooks": [{"name": "y"}]}]} for path in VOLCANO
    }
    for client in (StoredObjects(other), StoredObjects(VOLCANO, forbidden=VOLCANO)):
        assert run_command(StoredQueues(item("b")), "suspend", "b", client=client).err == ""


STOPPING_COMMANDS = [("suspend",), ("hold",), ("drain", "--yes"), ("stop", "--keep-already-running")]


@pytest.mark.parametrize("words", STOPPING_COMMANDS, ids=" ".join)
def test_each_command_that_stops_takes_what_becomes_of_parked_pods(words: tuple[str, ...]) -> None:
    api = StoredQueues(item("b"), item("c", parked="Recreate"))
    verb, *more = words
    assert run_command(api, verb, "b", *more, "--parked=recreate").code == 0
    assert run_command(api, verb, "c", *more, "--parked", "none").code == 0
    assert [patch["spec"]["parked"] for _, patch in api.patches] == ["Recreate", None]


@each_case("output", ["yaml", "json"])
@each_case("words", STOPPING_COMMANDS, ids=" ".join)
def test_each_command_that_stops_prints_what_a_dry_run_would_do_to_parked_pods(
    words: tuple[str, ...], output: str
) -> None:
    api = StoredQueues(item("b"))
    verb, *more = words
    result = run_command(
        api, verb, "b", *more, "--parked=recreate", "--dry-run=client", "-o", output, client=StoredObjects({})
    )
    assert (result.code, api.patches) == (0, []), result.err
    assert yaml_texts.load(result.out)["spec"]["parked"] == "Recreate"


def test_a_word_that_parked_does_not_have_is_refused() -> None:
    with pytest.raises(UsageError, match="it must be Keep, Recreate or none"):
        run_command(StoredQueues(item("b")), "suspend", "b", "--parked=delete")


def test_what_an_earlier_drain_set_is_taken_back() -> None:
    drain = {"rate": 5, "inFlight": 3, "gracePeriodSeconds": 9, "keep": {"matchLabels": {"app": "db"}}}
    api = StoredQueues(item("b", stopPolicy="HoldAndDrain", drain=drain))
    words = ("--rate=none", "--in-flight=none", "--grace-period=none", "--keep=none", "--yes")
    result = run_command(api, "drain", "b", *words)
    assert result.code == 0, result.err
    assert api.patches[0][1]["spec"] == {"drain": dict.fromkeys(drain)}


def test_close_waits_for_closed_and_for_the_acknowledgement_where_that_is_asked_for() -> None:
    """A close ends when nothing is left: `--wait` alone means that."""
    conditions = [{"type": "Accepting", "status": "False", "observedGeneration": 1}]
    status = {"observedGeneration": 1, "conditions": conditions, "state": "Closing", "pods": {"running": 2}}
    for words, code in (("--wait",), 1), (("--wait=closed",), 1), (("--wait=acknowledged",), 0):
        api = StoredQueues(item("b", status=status))
        result = run_command(api, "close", "b", *words, "--timeout=10ms")
        assert result.code == code, words
        assert ("not Closed yet" in result.err) is bool(code), words


def test_a_name_that_nothing_counts_is_said_without_a_server_too() -> None:
    words = ("create", "lab", "--capability=cpu=2,memeory=1Gi,gpu=4", "--dry-run=client")
    result = run_command(StoredQueues(), *words)
    assert result.code == 0
    assert "memeory (did you mean memory?), gpu (did you mean nvidia.com/gpu?)" in result.err
