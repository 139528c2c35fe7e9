"""What a verb does to a queue, as `verbs.changing` carries it out: `Acting` here, `holding.Stopping`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kubectl_queue.access.responses import Object
from kubectl_queue.edit.decide import (
    Decision,
    Wish,
    afterthoughts,
    decide,
    released,
)
from kubectl_queue.edit.wait import Awaited, expected
from kubectl_queue.snapshot import Snapshot
from queues.admission.queue_edits import action_refusal
from queues.states import State
from queues.verdict import Verdict


class Deed(Protocol):
    """Values alone: nothing is read or written by it."""

    def refusal(self, name: str) -> str | None:
        """Why it is never done to the queue of this name."""

    def decide(self, *, item: Object, snapshot: Snapshot) -> Decision:
        """The edit of the queue `item`, which is in the snapshot. Raises QueueError."""

    def afterthoughts(self, named: str, *, before: Snapshot, after: Snapshot) -> list[str]:
        """What an operator should know once it is done."""

    def goal(self, verdict: Verdict) -> Awaited:
        """What --wait waits for, where the rules say `verdict` of the queue."""


@dataclass(frozen=True, kw_only=True)
class Acting:
    """One of the actions of Commands. `state`: the state that --wait waits for besides."""

    wish: Wish
    state: State | None = None

    def refusal(self, name: str) -> str | None:
        return action_refusal(name, self.wish.action)

    def decide(self, *, item: Object, snapshot: Snapshot) -> Decision:
        return decide(self.wish, item=item, snapshot=snapshot)

    def afterthoughts(self, named: str, *, before: Snapshot, after: Snapshot) -> list[str]:
        return [
            *afterthoughts(self.wish, name=named, snapshot=after),
            *released(self.wish, name=named, before=before, after=after),
        ]

    def goal(self, verdict: Verdict) -> Awaited:
        return expected(self.wish.action, verdict, state=self.state)
