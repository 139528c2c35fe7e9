"""No Command acts twice, however late the watch is and however many Commands follow."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.exceptions import Refused
from controller.commands.executor import MAX_RECORDED
from controller.commands.handler import AT_ONCE
from tests.support.controller.controller_harness import ControllerHarness, Sent
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


class Stage(ControllerHarness):
    """A queue and its Commands, as the watch and as the API server have them."""

    def has(self, *recorded: str) -> Stage:
        """The queue, which has recorded these Commands."""
        obj = queue("a", annotations={"sluice.dev/commands": ",".join(recorded)})
        self.receive_events(queue("root"), queue("default"), obj)
        self.client.readable[f"{QUEUES}/a"] = obj
        return self

    def hears_of(self, *commands: Wire, there: bool = True) -> None:
        """The watch shows them; `there`: the API server has them, too."""
        self.receive_events(*commands)
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


def test_a_command_that_is_no_longer_recorded_and_is_gone_does_not_act(stage: Stage) -> None:
    """The queue has recorded thirty later ones, and the watch has not shown its deletion yet."""
    stage.has(*(f"later-{number}" for number in range(MAX_RECORDED)))
    stage.hears_of(stamped("old"), there=False)
    stage.sync()
    assert (stage.acts, stage.store.commands.all(), list(stage.events())) == ([], [], [])


def test_a_command_that_was_recreated_under_its_name_is_another_one(stage: Stage) -> None:
    stage.has()
    stage.hears_of(stamped("old"), there=False)
    stage.client.readable[f"{COMMANDS}/old"] = {**stamped("old"), "metadata": {"name": "old", "uid": "other"}}
    stage.sync()
    assert stage.acts == []


def test_a_command_that_is_being_deleted_is_left_alone(stage: Stage) -> None:
    stage.has()
    made = stamped("old")
    stage.hears_of(made)
    gone = {**made["metadata"], "deletionTimestamp": "2030-01-01T00:00:00Z"}
    stage.client.readable[f"{COMMANDS}/old"] = {**made, "metadata": gone}
    stage.sync()
    assert stage.acts == []


def test_a_command_that_exists_acts(stage: Stage) -> None:
    stage.has("before")
    stage.hears_of(stamped("stop-it"))
    stage.sync(rounds=1)
    [act, *_] = stage.acts
    assert act["spec"]["state"] == "Suspended"
    assert act["metadata"]["annotations"]["sluice.dev/commands"] == "before,uid-stop-it"


def test_a_command_opens_no_queue_that_is_being_deleted(stage: Stage) -> None:
    """The webhook refuses it; this one came before it, or while it was not asked."""
    stage.has()
    leaving = queue("a", version=2, state="Closed")
    leaving["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    stage.receive_events(leaving)
    stage.client.readable[f"{QUEUES}/a"] = leaving
    stage.hears_of(stamped("open-it", action="OpenQueue"))
    stage.sync(rounds=1)
    assert (stage.acts, stage.deleted()) == ([], {"open-it"})


def test_a_recorded_command_is_deleted_before_others_act_whatever_its_version(stage: Stage) -> None:
    """It was annotated since, so its version is later than theirs."""
    stage.has("uid-done")
    stage.hears_of(stamped("next", version=7), stamped("done", version=9))
    stage.sync(rounds=1)
    writes = [(sent.method, sent.path.rpartition("/")[2]) for sent in stage.client.sent]
    assert writes.index(("DELETE", "done")) < writes.index(("PATCH", "a"))


def test_a_command_that_cannot_be_deleted_stays_recorded_and_delays_no_other(stage: Stage) -> None:
    """An admission policy refuses the deletion, however many Commands follow."""

    def refuse(sent: Sent) -> Refused | None:
        return Refused(403, "Forbidden", "kept") if sent.path.rpartition("/")[2].startswith("kept") else None

    stage.client.refusal = refuse
    kept = [f"kept-{number}" for number in range(AT_ONCE + 2)]
    stage.has(*(f"uid-{name}" for name in kept), *(f"later-{number}" for number in range(MAX_RECORDED)))
    stage.hears_of(*map(stamped, kept), stamped("next", version=9))
    stage.sync()
    written = stage.acts[-1]["metadata"]["annotations"]["sluice.dev/commands"].split(",")
    assert written[: len(kept)] == [f"uid-{name}" for name in kept]
    assert (written[-1], len(written)) == ("uid-next", len(kept) + MAX_RECORDED)
    assert {event["involvedObject"]["name"] for event in stage.events("StepFailed")} >= {"kept-0"}


def test_a_resume_leaves_out_the_window_that_suspends_the_queue_and_no_other(stage: Stage) -> None:
    """What holds it is not what the action undoes: a Command resumes what is Suspended."""
    span = {"from": "2030-01-01T11:00:00Z", "until": "2030-01-01T13:00:00Z"}
    entry = {"start": span["from"], "until": span["until"]}
    windows = [
        {"name": "night", "state": "Suspended", **span},
        {"name": "held", "stopPolicy": "Hold", **span},
    ]
    obj = queue("a", windows=windows, inWindow=[{"name": "night", **entry}, {"name": "held", **entry}])
    stage.receive_events(queue("root"), queue("default"), obj)
    stage.client.readable[f"{QUEUES}/a"] = obj
    stage.hears_of(stamped("go", action="ResumeQueue"))
    stage.sync()
    [act, *_] = stage.acts
    assert act["spec"] == {"windowOverrides": [{"window": "night", "start": span["from"], "skip": True}]}
