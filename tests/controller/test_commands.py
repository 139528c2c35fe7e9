"""Commands: none acts twice, however late the watch is and however many came after it."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.exceptions import Refused
from controller.commands import AT_ONCE, RECORDED
from tests.support.controller.whole_look import Sent, WholeLook
from tests.support.http.wire_objects import (
    Wire,
    command,
    queue,
)

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands"
STAMP = {"sluice.dev/author": "alice"}


def stamped(name: str, *, version: int = 5, action: str = "SuspendQueue") -> Wire:
    return command(name, action=action, target="a", version=version, annotations=STAMP)


class Stage(WholeLook):
    """A queue and its Commands, as the watch and as the API server have them."""

    def has(self, *recorded: str) -> Stage:
        """The queue, with these Commands recorded."""
        obj = queue("a", annotations={"sluice.dev/commands": ",".join(recorded)})
        self.hears(queue("root"), queue("default"), obj)
        self.client.readable[f"{QUEUES}/a"] = obj
        return self

    def hears_of(self, *commands: Wire, there: bool = True) -> None:
        """By the watch; `there`: the API server has them, too."""
        self.hears(*commands)
        if there:
            for one in commands:
                self.client.readable[f"{COMMANDS}/{one['metadata']['name']}"] = one

    @property
    def acts(self) -> list[Any]:
        """The writes that carry a Command out."""
        return self.bodies(f"{QUEUES}/a")

    def deleted(self) -> set[str]:
        paths = [sent.path for sent in self.client.sent if sent.method == "DELETE"]
        return {path.rpartition("/")[2] for path in paths}


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_one_that_fell_off_the_list_and_is_gone_acts_no_more(stage: Stage) -> None:
    """Thirty later ones were recorded, and the watch has not told of its end yet."""
    stage.has(*(f"later-{number}" for number in range(RECORDED)))
    stage.hears_of(stamped("old"), there=False)
    stage.look()
    assert (stage.acts, stage.store.commands.all(), list(stage.events())) == ([], [], [])


def test_one_that_was_made_again_under_its_name_is_another(stage: Stage) -> None:
    stage.has()
    stage.hears_of(stamped("old"), there=False)
    stage.client.readable[f"{COMMANDS}/old"] = {**stamped("old"), "metadata": {"name": "old", "uid": "other"}}
    stage.look()
    assert stage.acts == []


def test_one_that_is_being_deleted_is_left_alone(stage: Stage) -> None:
    stage.has()
    made = stamped("old")
    stage.hears_of(made)
    gone = {**made["metadata"], "deletionTimestamp": "2030-01-01T00:00:00Z"}
    stage.client.readable[f"{COMMANDS}/old"] = {**made, "metadata": gone}
    stage.look()
    assert stage.acts == []


def test_one_that_is_there_acts(stage: Stage) -> None:
    stage.has("before")
    stage.hears_of(stamped("stop-it"))
    stage.look(rounds=1)
    [act, *_] = stage.acts
    assert act["spec"]["state"] == "Suspended"
    assert act["metadata"]["annotations"]["sluice.dev/commands"] == "before,uid-stop-it"


def test_one_that_is_recorded_is_deleted_before_others_act_whatever_its_version(stage: Stage) -> None:
    """Somebody has annotated it since, so that it looks younger than they are."""
    stage.has("uid-done")
    stage.hears_of(stamped("next", version=7), stamped("done", version=9))
    stage.look(rounds=1)
    writes = [(sent.method, sent.path.rpartition("/")[2]) for sent in stage.client.sent]
    assert writes.index(("DELETE", "done")) < writes.index(("PATCH", "a"))


def test_one_that_cannot_be_deleted_stays_on_the_list_and_keeps_no_other_waiting(stage: Stage) -> None:
    """A policy of somebody's refuses it; however many come after."""

    def refuse(sent: Sent) -> Refused | None:
        return Refused(403, "Forbidden", "kept") if sent.path.rpartition("/")[2].startswith("kept") else None

    stage.client.refusal = refuse
    kept = [f"kept-{number}" for number in range(AT_ONCE + 2)]
    stage.has(*(f"uid-{name}" for name in kept), *(f"later-{number}" for number in range(RECORDED)))
    stage.hears_of(*map(stamped, kept), stamped("next", version=9))
    stage.look()
    written = stage.acts[-1]["metadata"]["annotations"]["sluice.dev/commands"].split(",")
    assert written[: len(kept)] == [f"uid-{name}" for name in kept]
    assert (written[-1], len(written)) == ("uid-next", len(kept) + RECORDED)
    assert {event["involvedObject"]["name"] for event in stage.events("StepFailed")} >= {"kept-0"}
