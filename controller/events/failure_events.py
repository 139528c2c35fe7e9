"""Events on the objects that something failed at: what, why, and when it is tried again."""

from __future__ import annotations

from functools import partial

from cluster.key_backoff import Failure
from cluster.object_reference import ObjectReference
from cluster.recorder import EventRecorder
from cluster.write_queue import STEP

#: The account of these events: there may be as many failures as objects.
BUDGET = "failures"


def report(recorder: EventRecorder, failure: Failure, subject: ObjectReference) -> None:
    """One event, the same again at most every five minutes, however often it fails."""
    record = partial(recorder.record, subject, warning=True, budget=BUDGET)
    what = failure.step.removeprefix(f"{STEP} ")
    if what == failure.step:
        record(reason="StepFailed", message=f"{what} failed and is tried again: {failure.message}")
    else:
        record(reason="WriteRefused", message=f"{what} was refused and is tried again: {failure.message}")
