"""Commands that stop and resume: what they write, what a dry run of them writes, and a misspelt name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kubectl_queue.cli.options import DryRun
from kubectl_queue.objects.fields import Object
from queues.states import StopPolicy
from tests.support.cases import each_case
from tests.support.plugin.harness import StoredObjects, StoredQueues, item, run_command

HOLD, DRAIN = StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN
STOPS = [
    (("hold",), HOLD),
    (("drain", "--yes"), DRAIN),
    (("drain", "--keep-already-running"), HOLD),
    (("stop", "--yes"), DRAIN),
    (("stop", "--keep-already-running"), HOLD),
]
#: Each spelling, and how the API server is asked then.
FLAGS = pytest.mark.parametrize(
    ("flag", "asked"),
    [("--dry-run=client", []), ("--dry-run", []), ("--dry-run=server", [DryRun.SERVER])],
)


class DryRuns(StoredQueues):
    """Keeps how each write is asked for."""

    def __init__(self, *items: Object) -> None:
        super().__init__(*items)
        self.asked: list[DryRun] = []

    def patch(self, name: str, patch: Mapping[str, Any], *, dry_run: DryRun) -> Object:
        self.asked.append(dry_run)
        return super().patch(name, patch, dry_run=dry_run)


@each_case(("words", "policy"), STOPS)
def test_each_stop_sets_its_policy_with_a_reason_and_a_time(
    words: tuple[str, ...], policy: StopPolicy
) -> None:
    api, (verb, *more) = StoredQueues(item("research")), words
    assert run_command(api, verb, "research", *more, "--reason=audit", "--for=1h").code == 0
    [(name, patch)] = api.patches
    stop = {"stopPolicy": policy.value, "reason": "audit", "resumeAt": "2030-01-01T13:00:00Z"}
    assert (name, patch["spec"]) == ("research", stop)


@pytest.mark.parametrize(("words", "policy"), STOPS)
@FLAGS
def test_a_dry_run_writes_nothing_and_of_what_drains_it_says_what_would_go(
    words: tuple[str, ...], policy: StopPolicy, flag: str, asked: list[DryRun]
) -> None:
    api, (verb, *more) = DryRuns(item("research")), words
    done = run_command(api, verb, "research", *more, flag, "--wait", client=StoredObjects({}))
    assert (done.code, api.asked) == (0, asked)
    assert "dry run)" in done.out
    assert ("0 pods to go, 0 to stay" in done.out) is (policy is DRAIN)


@pytest.mark.parametrize(
    ("verb", "before"),
    [
        ("suspend", {}),
        ("close", {}),
        ("resume", {"stopPolicy": "Hold"}),
        ("open", {"state": "Closed"}),
    ],
)
@FLAGS
def test_a_dry_run_of_an_action_writes_nothing(
    verb: str, before: dict[str, Any], flag: str, asked: list[DryRun]
) -> None:
    api = DryRuns(item("research", **before))
    done = run_command(api, verb, "research", flag, client=StoredObjects({}))
    assert (done.code, api.asked) == (0, asked)
    assert "dry run)" in done.out


@pytest.mark.parametrize("verb", ["hold", "drain", "stop"])
def test_a_misspelt_queue_name_is_answered_with_the_near_one(verb: str) -> None:
    done = run_command(StoredQueues(item("research")), verb, "researchx")
    assert (done.code, done.err) == (1, 'queue "researchx" not found\n\nDid you mean this?\n\tresearch\n')
