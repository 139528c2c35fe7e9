"""A preview has what the command would print and write."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kubectl_queue.edit.action_operation import ActionOperation
from kubectl_queue.edit.operation import StopFields
from kubectl_queue.edit.preview import edited, preview_edit
from kubectl_queue.edit.stop_policy_operation import StopPolicyOperation
from kubectl_queue.errors import QueueError
from queues.states import Action, State, StopPolicy
from tests.support.plugin.harness import NOW, StoredQueues, item, run_command, snapshot

STORED = (
    item("a", state="Suspended"),
    item("b", parent="a"),
    item("c", state="Closed", status={"state": "Closed"}),
)
SUSPEND = ActionOperation(action=Action.SUSPEND, stop=StopFields(reason="audit"))
RESUME = ActionOperation(action=Action.RESUME)
UNTIL = StopFields(resume_at=NOW + timedelta(hours=1))


def test_a_preview_says_what_the_command_prints_and_writes() -> None:
    api = StoredQueues(*STORED)
    printed = run_command(api, "resume", "b")
    preview = preview_edit(RESUME, "b", snapshot(*STORED))
    assert printed.out == f"queue.scheduling.volcano.sh/b {preview.outcome}\n"
    assert printed.err == "".join(f"Warning: {text}\n" for text in preview.warnings)
    assert preview.warnings
    run_command(api, "suspend", "b", "--reason=audit")
    written = preview_edit(SUSPEND, "b", snapshot(*STORED))
    assert api.patches == [
        ("b", {"metadata": {"resourceVersion": written.resource_version}, "spec": written.patch})
    ]
    assert written.after.own_state("b") is State.SUSPENDED


def test_queues_that_cannot_be_edited_stay_as_they_are() -> None:
    before, hold = snapshot(*STORED), StopPolicyOperation(policy=StopPolicy.HOLD, stop=UNTIL)
    with pytest.raises(QueueError, match="which no time undoes"):
        preview_edit(hold, "c", before)
    after = edited(hold, ["b", "c", "gone"], before).tree.queues
    assert [after[name].stop_policy for name in "abc"] == [StopPolicy.NONE, StopPolicy.HOLD, StopPolicy.NONE]
