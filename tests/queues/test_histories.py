"""Random histories: queues come, go and move, operators act, members come and go, time passes.

After every step each queue is what the slow way of `oracle` says, and the snapshot agrees.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from queues.admission.command_validation import action_refusal
from queues.admission.queue_edits import (
    deletion_refusal,
    parent_refusal,
    spec_refusal,
)
from queues.queue import Queue
from queues.snapshot import QueueSnapshot
from queues.states import ACTIONS, Action, Desired, State, StopPolicy, edit_allowed, own_state
from queues.tree import Tree
from queues.verdict import Verdict, verdict
from tests.support.examples import examples
from tests.support.rules.cases import (
    NOW,
    OPEN,
    SECOND,
    SUSPENDED,
    queue,
)
from tests.support.rules.oracle import live_below, truths

#: Few, so that what happens happens to the same queues.
NAMES = ("root", "default", "a", "b", "c")
names = st.sampled_from(NAMES)
parents = st.sampled_from((*NAMES, "ghost"))


class Histories(RuleBasedStateMachine):
    """A cluster's queues as operators, tenants and time leave them."""

    def __init__(self) -> None:
        super().__init__()
        family = queue("default"), queue("a"), queue("b", "a"), queue("c", "b")
        self.queues = {one.name: one for one in family}
        self.members: set[str] = set()
        self.now = NOW
        self.edits = 0

    # What happens

    @rule(name=names, parent=parents)
    def create(self, name: str, parent: str) -> None:
        if name not in self.queues:
            self.write(Queue(name=name, parent=parent, uid=f"u{self.edits}"))

    @rule(name=names)
    def delete_as_the_rules_allow(self, name: str) -> None:
        tree = Tree(self.queues)
        if name in tree and deletion_refusal(self.verdict(name), children=tree.children(name)) is None:
            assert truths(self.queues, members=self.members, now=self.now)[name].state == "Closed"
            assert name not in ("root", "default")
            assert name not in self.members
            del self.queues[name]

    @rule(name=names)
    def vanish(self, name: str) -> None:
        """Someone deletes the object behind our back."""
        self.queues.pop(name, None)

    @rule(name=names, parent=parents)
    def move_as_the_rules_allow(self, name: str, parent: str) -> None:
        """An edit that passes never breaks a chain, its own or one below."""
        if name not in self.queues:
            return
        moved = self.but(name, parent=parent)
        if parent_refusal(moved, tree=Tree(self.queues)) is None:
            self.write(moved)
            tree = Tree(self.queues)
            assert all(tree.chain(below).broken is None for below in tree.subtree(name))

    @rule(name=names, parent=parents)
    def move_past_the_rules(self, name: str, parent: str) -> None:
        """Two replicas let one edit pass each: cycles and gaps come of it."""
        if name in self.queues:
            self.write(self.but(name, parent=parent))

    @rule(name=names, action=st.sampled_from(Action))
    def act(self, name: str, action: Action) -> None:
        """A Command edits `spec.state` by the table, and never from Closed to Suspended."""
        if name in self.queues and action_refusal(name, action) is None:
            wish = ACTIONS[action][self.own(name)]
            if wish is not None:
                assert (self.own(name), wish) != (State.CLOSED, SUSPENDED)
                self.write(self.but(name, desired=wish, resume_at=None))

    @rule(name=names, desired=st.sampled_from(Desired))
    def edit(self, name: str, desired: Desired) -> None:
        if name in self.queues and edit_allowed(self.queues[name].desired, desired, own=self.own(name)):
            after = self.but(name, desired=desired, resume_at=None)
            if spec_refusal(after) is None:
                self.write(after)

    @rule(name=names, policy=st.sampled_from(StopPolicy))
    def hold(self, name: str, policy: StopPolicy) -> None:
        if name in self.queues:
            self.write(self.but(name, stop_policy=policy, resume_at=None))

    @rule(name=names, after=st.integers(-1, 5))
    def resume_later(self, name: str, after: int) -> None:
        if name in self.queues:
            timed = self.but(name, resume_at=self.now + after * SECOND)
            if spec_refusal(timed) is None:
                self.write(timed)

    @rule(name=names)
    def member_comes(self, name: str) -> None:
        """Only a queue that accepts gets members."""
        if self.verdict(name).accepts:
            self.members.add(name)

    @rule(name=names)
    def member_goes(self, name: str) -> None:
        self.members.discard(name)

    @rule(seconds=st.integers(1, 3))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds * SECOND

    @rule(action=st.sampled_from([Action.SUSPEND, Action.CLOSE]), data=st.data())
    @precondition(lambda self: self.queues)
    def stop_and_undo(self, action: Action, data: st.DataObject) -> None:
        """Stop an open queue and open it again: what the others show is what it was."""
        name = data.draw(st.sampled_from(sorted(self.queues)))
        if (self.queues[name].desired, self.queues[name].resume_at) == (OPEN, None):
            before = self.shown()
            wish = ACTIONS[action][self.own(name)]
            assert wish is not None
            self.write(self.but(name, desired=wish))
            undo = ACTIONS[Action.OPEN][self.own(name)]
            assert undo is OPEN
            self.write(self.but(name, desired=undo))
            assert self.shown() == before

    # What must always be true

    @invariant()
    def each_queue_is_what_the_rules_say(self) -> None:
        for name, truth in truths(self.queues, members=self.members, now=self.now).items():
            found = self.verdict(name)
            assert (found.state, found.accepts, found.schedules, found.drains, found.policy) == truth[:5]

    @invariant()
    def the_snapshot_agrees(self) -> None:
        snapshot = QueueSnapshot(Tree(self.queues), now=self.now)
        for name in NAMES:
            decision, found = snapshot.decision(name), self.verdict(name)
            assert (decision.accepts, decision.schedules, decision.drains) == (
                found.accepts,
                found.schedules,
                found.drains,
            )

    # Short ways

    def verdict(self, name: str) -> Verdict:
        live = live_below(self.queues, name, self.members)
        return verdict(name, tree=Tree(self.queues), live=live, now=self.now)

    def own(self, name: str) -> State:
        """The column of the table of actions for a queue, from its own wish, chain and members."""
        tree = Tree(self.queues)
        wish = tree.queues[name].desired_at(self.now)
        live = live_below(self.queues, name, self.members)
        return own_state(wish, broken=tree.chain(name).broken is not None, live=live)

    def shown(self) -> dict[str, object]:
        return {name: self.verdict(name) for name in Tree(self.queues)}

    def but(self, name: str, **wishes: object) -> Queue:
        one = self.queues[name]
        return Queue(**{**{field: getattr(one, field) for field in one.__struct_fields__}, **wishes})

    def write(self, one: Queue) -> None:
        self.edits += 1
        fields = {field: getattr(one, field) for field in one.__struct_fields__}
        self.queues[one.name] = Queue(**{**fields, "generation": self.edits})


Histories.TestCase.settings = settings(examples(100), stateful_step_count=40)
TestHistories = Histories.TestCase
