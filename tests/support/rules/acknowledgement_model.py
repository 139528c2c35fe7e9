"""A small cluster in values, in which anything may happen in any order, to try the acknowledgement with.

Two replicas, each with its own progress through the changes of queues and of pods; two API servers, each with
its own progress through the labels of the namespace; a scheduler that has its binds asked through any of
them, and another that calls no filter; a leader that may lose its Lease with a write in its hands. Time goes
by in whole seconds.

A bind of the other scheduler (pods `u...`) is stored within `BYPASS` where no guard is asked, and within a
request's time where one is. It is sent by way of a guard only if that replica knows the pod.

Anybody may delete the Lease of a replica. It goes on to answer by what it knows until it finds out, or until
the Lease would have ended.

A run is a `random.Random`: each step picks one of the things that may happen now. It ends with `Violation`
when a pod is bound although somebody who read the queue was told that its stop is acknowledged.

`Rules` turns each of the mended faults back on:

=================  ===================================================================================
`blind`            members are concluded from whatever pods the leader knows, and passes of others are
                   outweighed by a guard that has been on for long, be it in no namespace at all
`by_generation`    an acknowledgement is read by the queue's own generation alone
`unfenced`         what a leader writes lands, however long ago it was decided
`one_server`       the guard is probed at one API server
`silence_is_none`  what a replica does not say it does not have
`assume_briefly`   what a lost replica let through is assumed for as long as a request takes, no longer
`place_alone`      a stop goes on while the same queues are below, also if one was elsewhere meanwhile
`forget_binds`     what the guard of a replica that is gone let pass is not known, of pods without filter
`retry_asked`      an attempt counts as ended once a retry is requested, not once it was made
`absence_is_end`   a replica whose Lease is gone has ended, and knows so
`no_gap`           a replica that finds its Lease deleted creates another one, and answers on
`uncertain`        a leader that has just begun to watch the Leases has seen all that were deleted
=================  ===================================================================================
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec

from cluster.inflight.binds import BindPass, BindPasses
from controller.stops.acknowledgement import may_be_a_bind
from queues.status.acknowledgement import (
    BindableNamespace,
    Evidence,
    PodPass,
    ReplicaView,
    UnlabelledView,
    may_acknowledge,
    replicas_have_seen,
)

REQUEST = 3.0
LEASE = 2.0
MARGIN = 1.0
BYPASS = 1.0
NAMESPACE = "team"
PARENT, CHILD = "parent", "child"
#: How often what happens, by the first word of its name; 4 where it is not here.
WEIGHTS = {
    "time": 3,
    "stop": 0.7,
    "move": 0.3,
    "lose": 0.3,
    "leave": 0.3,
    "delete": 0.5,
    "renew": 1,
    "retry": 2,
    "try": 1,
    "send": 1,
    "create": 2,
    "store": 2,
    "filter": 3,
    "labels-reach": 4,
    "look": 6,
    "land": 6,
    "pods-reach": 8,
    "guard": 8,
    "probe": 8,
    "mark": 10,
    "publish": 10,
    "queues-reach": 10,
}
#: Of these it is drawn for each object how often it happens, of the others for all together.
APART = frozenset({"land", "labels-reach", "pods-reach", "queues-reach"})
SCOPE = {PARENT: frozenset({PARENT, CHILD}), CHILD: frozenset({CHILD})}


class Violation(AssertionError):
    """A pod was bound after an acknowledgement that nothing has ended."""


@dataclass(frozen=True)
class Rules:
    blind: bool = False
    by_generation: bool = False
    unfenced: bool = False
    one_server: bool = False
    silence_is_none: bool = False
    assume_briefly: bool = False
    place_alone: bool = False
    forget_binds: bool = False
    retry_asked: bool = False
    absence_is_end: bool = False
    no_gap: bool = False
    uncertain: bool = False


@dataclass(frozen=True)
class Spec:
    """The specs of both queues at one version of the cluster. `below`: whether the child is below the
    parent; `placed`: the child's generation since which it is where it is."""

    version: int
    stopped: frozenset[str] = frozenset()
    below: bool = True
    generations: tuple[int, int] = (1, 1)
    placed: int = 1

    def schedules(self, queue: str) -> bool:
        return queue not in self.stopped and not (queue == CHILD and self.below and PARENT in self.stopped)

    def scope(self, queue: str) -> frozenset[str]:
        return SCOPE[queue] if self.below or queue == CHILD else frozenset({PARENT})

    def named(self, queue: str) -> tuple[int, ...]:
        """What an acknowledgement of the queue names: all specs that it rests on."""
        return self.generations if self.below else (self.generations[queue == CHILD],)

    def places(self, queue: str) -> tuple[int, ...]:
        """What must not change, for a leader to go on with the same stop of the queue."""
        if queue == PARENT and self.below:
            return (self.generations[0], self.placed)
        return self.named(queue)


@dataclass(frozen=True)
class PodChange:
    version: int
    pod: str
    what: str  # created, bound, or a marker; or its condition: marked by a leader, tried by its scheduler


@dataclass(frozen=True)
class Acknowledged:
    """What the queue's status says: what it holds for, and the queue's own generation."""

    names: tuple[int, ...]
    generation: int


@dataclass
class Write:
    """A write of a leader, decided and not stored yet. `version`: what it was decided on."""

    what: str
    queue: str
    version: int
    value: Acknowledged | None


@dataclass
class Request:
    """A bind that the API server has let in and not stored yet."""

    pod: str
    until: float


@dataclass
class Replica:
    name: str
    passes: BindPasses
    queues_at: int = 0
    pods_at: int = 0
    answers: bool = True
    lost_at: float | None = None
    killed: bool = False
    view: ReplicaView | None = None
    #: When passes up to then are known by the pods of a version.
    settling: list[tuple[int, float]] = field(default_factory=list)
    #: The pods whose condition has a leader's mark, as far as it knows.
    marked: set[str] = field(default_factory=set)
    old: bool = False
    #: The version and the time at which its Lease was deleted, and since when a leader has noticed that.
    deleted: tuple[int, float] | None = None
    noticed_at: float | None = None
    #: The version and the time from which on it has watched the Leases.
    watches_since: tuple[int, float] = (0, -LEASE)

    def is_answering(self, now: float) -> bool:
        """Whether it runs, and its Lease has not ended by its own clock."""
        return self.answers and (self.deleted is None or now < self.deleted[1] + LEASE - MARGIN)


class Cluster:
    """All of it. `step` lets one thing happen."""

    def __init__(self, rules: Rules, chance: random.Random, *, old: bool = False) -> None:
        """`old`: one of the replicas is of an older version, and says less."""
        self.rules, self.chance, self.now = rules, chance, 0.0
        self.version = 1
        self.specs = [Spec(1)]
        self.changes: list[PodChange] = []
        self.labels: list[tuple[int, int]] = [(1, 0)]  # version, token of the leader that wrote it; 0 is off
        self.label_at = [0, 0]
        self.status: dict[str, Acknowledged] = {}
        self.status_version = {PARENT: 1, CHILD: 1}
        self.pods: dict[str, str] = {}  # free, passed, sent or bound
        self.requests: list[Request] = []
        self.replicas = [
            Replica(name, BindPasses(clock=self.clock, request_seconds=REQUEST)) for name in "ab"
        ]
        self.replicas[1].old = old
        for replica in self.replicas:
            self.publish(replica)
        self.paused: list[Write] = []
        #: Until when the Lease of a replica that was killed may be seen to expire.
        self.killed_until = -1.0
        self.lead(0)
        self.trace: list[str] = []
        #: How often what happens in this history.
        #: By kind of action; by action, as found in them.
        self.likings: dict[str, float] = {}
        self.weights: dict[str, float] = {}

    def clock(self) -> float:
        return self.now

    # What there is

    def tick_version(self) -> int:
        self.version += 1
        return self.version

    @property
    def last_change(self) -> int:
        """The version of the youngest change of a pod."""
        return self.changes[-1].version if self.changes else 0

    @property
    def spec(self) -> Spec:
        return self.specs[-1]

    def spec_of(self, replica: Replica) -> Spec:
        return self.specs[replica.queues_at]

    def known(self, replica: Replica) -> dict[str, str]:
        """The pods as the replica knows them."""
        return {
            change.pod: change.what
            for change in self.changes[: replica.pods_at]
            if change.what in {"created", "bound"}
        }

    def bindable(self, replica: Replica) -> list[str]:
        return [pod for pod, what in self.known(replica).items() if what == "created"]

    def pods_version(self, replica: Replica) -> int:
        return self.changes[replica.pods_at - 1].version if replica.pods_at else 0

    def lead(self, number: int) -> None:
        """A replica takes the lead and knows nothing of what the one before it did."""
        self.leader = self.replicas[number]
        self.token = self.tick_version()
        self.guards: dict[str, float] = {}
        #: By queue: the places of its stop, a version that has them, and whether that stop holds.
        self.stops: dict[str, tuple[tuple[int, ...], int, bool]] = {}
        self.read_version: dict[str, int] = {}
        self.lost_version: int | None = self.version
        #: An expired Lease is kept for as long as a request takes: whoever leads meanwhile sees it.
        self.lost_killed = self.now < self.killed_until
        self.acknowledged: dict[str, tuple[int, ...]] = {}
        self.looked_at: dict[str, Spec] = {}

    # What may happen

    def actions(self) -> Iterator[tuple[str, Callable[[], object]]]:
        yield "time", self.pass_time
        for queue in (PARENT, CHILD):
            yield f"stop or resume {queue}", partial(self.edit, queue)
        yield "move", self.move
        if sum(state != "bound" for state in self.pods.values()) < 2:
            yield "create", self.create
            if any(
                each.is_answering(self.now) and self.spec_of(each).schedules(CHILD) for each in self.replicas
            ):
                yield "create other", partial(self.create, "u")  # else it gets the gate
        if max([*self.read_version.values(), self.lost_version or 0]) > self.last_change:
            yield "mark", self.mark
        for replica in self.replicas:
            yield from self.of_replica(replica)
        for server in (0, 1):
            if self.label_at[server] < len(self.labels) - 1:
                yield f"labels-reach server-{server}", partial(self.see_label, server)
        for request in self.requests:
            yield f"store {request.pod}", partial(self.store_bind, request)
        yield from self.of_scheduler()
        yield from self.of_leader()

    def of_replica(self, replica: Replica) -> Iterator[tuple[str, Callable[[], object]]]:
        if replica.queues_at < len(self.specs) - 1:
            yield f"queues-reach {replica.name}", lambda: self.see_queues(replica)
        if replica.pods_at < len(self.changes):
            yield f"pods-reach {replica.name}", lambda: self.see_pods(replica)
        if replica.answers and replica.deleted is None and self.has_news(replica):
            yield f"publish {replica.name}", lambda: self.publish(replica)
        if replica.answers and replica.deleted is None:
            yield f"delete the Lease of {replica.name}", lambda: self.delete_lease(replica)
        if replica.answers and replica.deleted is not None:
            yield f"renew {replica.name}", lambda: self.renew(replica)
        if replica.answers and all(each.answers for each in self.replicas):
            yield f"lose {replica.name}", lambda: self.lose(replica)
            if replica.deleted is None and (self.rules.forget_binds or not self.has_other_binds(replica)):
                yield f"leave {replica.name}", lambda: self.leave(replica)
        if not replica.answers and replica.lost_at is not None and self.now >= replica.lost_at + LEASE:
            yield f"{replica.name} comes back", lambda: self.come_back(replica)

    def of_scheduler(self) -> Iterator[tuple[str, Callable[[], object]]]:
        answering = [replica for replica in self.replicas if replica.is_answering(self.now)]
        for pod, state in self.pods.items():
            if state in {"free", "passed"} and self.is_marked(pod):
                yield f"try {pod}", partial(self.end_attempt, pod)
            for replica in answering:
                other = is_other(pod)
                if state == "free" and not other:
                    yield f"filter {pod} at {replica.name}", partial(self.filter, pod, replica)
                if state == "passed" or (other and state == "free" and pod in self.known(replica)):
                    for server in (0, 1):
                        yield (
                            f"send {pod} by server {server}, guard of {replica.name}",
                            partial(self.send, pod, replica, server),
                        )

    def of_leader(self) -> Iterator[tuple[str, Callable[[], object]]]:
        other = next(replica for replica in self.replicas if replica is not self.leader)
        if not self.leader.answers and other.answers and self.leader.lost_at is not None:
            if self.now >= self.leader.lost_at + LEASE:
                yield "another leads", lambda: self.lead(self.replicas.index(other))
            return
        if not self.leader.is_answering(self.now):
            return
        if self.uncounted():
            yield "observe", self.count_lost
        if self.wants_guard() != (self.labels[-1][1] == self.token):
            yield "guard", self.write_guard
        if self.labels[-1][1] == self.token and not self.guards:
            yield "probe", self.probe
        for pod in self.to_retry():
            yield f"retry {pod}", partial(self.retry, pod)
        for queue in (PARENT, CHILD):
            if not self.acknowledged.get(queue) or self.spec_of(self.leader) is not self.looked_at.get(queue):
                yield f"look at {queue}", partial(self.look, queue)

    def weight(self, what: str) -> float:
        """Each run has likings of its own (swarm testing): what is rare in most is common in some."""
        if what in self.weights:
            return self.weights[what]
        words = what.split(" ")
        kind = (
            " ".join(words[:2])
            if words[0] in {"land", "labels-reach", "pods-reach", "queues-reach"}
            else words[0]
        )
        if kind not in self.likings:
            self.likings[kind] = WEIGHTS.get(words[0], 4) * self.chance.choice((0.1, 1.0, 1.0, 3.0))
        self.weights[what] = self.likings[kind]
        return self.likings[kind]

    def possible(self) -> list[tuple[str, Callable[[], object]]]:
        # A write may land at any time, also when whoever sent it leads no more.
        writes = [(f"land {write.what} {write.queue}", lambda w=write: self.land(w)) for write in self.paused]
        return [*self.actions(), *writes]

    def do(self, name: str) -> object:
        """Let the first thing happen whose name begins so, if any may."""
        for what, act in self.possible():
            if what.startswith(name):
                self.trace.append(what)
                return act()
        return None

    def step(self) -> None:
        actions = self.possible()
        weights = [self.weight(what) for what, _ in actions]
        what, act = self.chance.choices(actions, weights)[0]
        self.trace.append(what)
        act()

    # Queues

    def edit(self, queue: str) -> None:
        stopped = self.spec.stopped ^ {queue}
        first, second = self.spec.generations
        generations = (first + 1, second) if queue == PARENT else (first, second + 1)
        self.specs.append(
            Spec(self.tick_version(), frozenset(stopped), self.spec.below, generations, self.spec.placed)
        )
        self.status_version[queue] = self.version

    def move(self) -> None:
        first, second = self.spec.generations
        self.specs.append(
            Spec(self.tick_version(), self.spec.stopped, not self.spec.below, (first, second + 1), second + 1)
        )
        self.status_version[CHILD] = self.version

    def is_acknowledged(self, queue: str) -> bool:
        """What a reader of the queue takes from its status."""
        said = self.status.get(queue)
        if said is None or self.spec.schedules(queue):
            return False
        if self.rules.by_generation:
            return said.generation == self.spec.generations[queue == CHILD]
        return said.names == self.spec.named(queue)

    # Pods and their scheduler; all are members of the child

    def create(self, kind: str = "p") -> None:
        pod = f"{kind}{len(self.pods)}"
        self.pods[pod] = "free"
        self.changes.append(PodChange(self.tick_version(), pod, "created"))

    def mark(self) -> None:
        self.changes.append(PodChange(self.tick_version(), "", "marker"))

    def filter(self, pod: str, replica: Replica) -> None:
        replica.passes.record_filter_pass(namespace=NAMESPACE, name=pod, queue=CHILD)
        if self.spec_of(replica).schedules(CHILD):
            self.pods[pod] = "passed"
        else:
            replica.passes.record_filter_refusal(NAMESPACE, pod)

    def is_marked(self, pod: str) -> bool:
        states = (change.what for change in reversed(self.changes) if change.pod == pod)
        return next(states) == "marked"

    def end_attempt(self, pod: str) -> None:
        """The scheduler's attempt ends without a bind: one that was under way, or another."""
        self.pods[pod] = "free"
        if self.is_marked(pod):
            self.changes.append(PodChange(self.tick_version(), pod, "tried"))

    def send(self, pod: str, replica: Replica, server: int) -> None:
        guarded = self.labels[self.label_at[server]][1]
        by_scheduler = not is_other(pod)
        if guarded and self.known(replica).get(pod) == "created":
            replica.passes.record_bind_pass(
                request=pod, namespace=NAMESPACE, name=pod, queue=CHILD, by_scheduler=by_scheduler
            )
            if not self.spec_of(replica).schedules(CHILD):
                replica.passes.record_bind_refusal(pod, NAMESPACE, pod, by_scheduler=by_scheduler)
                self.end_attempt(pod)
                return
        self.pods[pod] = "sent"
        seconds = REQUEST if guarded or by_scheduler else BYPASS
        self.requests.append(Request(pod, self.now + seconds))

    def store_bind(self, request: Request) -> None:
        self.requests.remove(request)
        stops = [queue for queue in (PARENT, CHILD) if CHILD in self.spec.scope(queue)]
        if any(self.is_acknowledged(queue) for queue in stops):
            raise Violation("\n".join(self.trace))
        self.pods[request.pod] = "bound"
        self.changes.append(PodChange(self.tick_version(), request.pod, "bound"))

    def pass_time(self, seconds: float = 1.0) -> None:
        self.now += seconds
        for request in [each for each in self.requests if each.until <= self.now]:
            self.requests.remove(request)
            self.end_attempt(request.pod)

    # Replicas

    def see_queues(self, replica: Replica) -> None:
        replica.queues_at = self.chance.randint(replica.queues_at + 1, len(self.specs) - 1)

    def see_pods(self, replica: Replica) -> None:
        upto = self.chance.randint(replica.pods_at + 1, len(self.changes))
        for change in self.changes[replica.pods_at : upto]:
            if change.what == "bound":
                replica.passes.close(NAMESPACE, change.pod)
            elif change.what == "marked":
                replica.marked.add(change.pod)
            elif change.what == "tried" and change.pod in replica.marked:
                replica.marked.discard(change.pod)
                replica.passes.end_attempt(NAMESPACE, change.pod)
        replica.pods_at = upto
        self.settle(replica)

    def settle(self, replica: Replica) -> None:
        known, waiting = self.pods_version(replica), set(self.bindable(replica))

        def waits(each: BindPass) -> bool:
            return each.name in waiting

        for version, at in replica.settling:
            if version <= known:
                replica.passes.drop_settled(before=at, waits=waits)

    def has_news(self, replica: Replica) -> bool:
        """Whether it would say something else, or its last word is a while ago."""
        view = replica.view
        if view is None or view.queues != self.spec_of(replica).version:
            return True
        if view.pods is not None and view.pods != self.pods_version(replica):
            return True
        said = view.open_queues or frozenset()
        return said != frozenset(each.queue for each in replica.passes.open_passes()) and not self.spec_of(
            replica
        ).schedules(CHILD)

    def publish(self, replica: Replica) -> None:
        """As a Lease is renewed: what is said of passes is read after what is said of queues."""
        seen = self.spec_of(replica)
        passes = [each for each in replica.passes.open_passes() if not seen.schedules(each.queue)]
        replica.view = ReplicaView(
            name=replica.name,
            queues=seen.version,
            pods=None if replica.old else self.pods_version(replica),
            open_queues=None if replica.old else frozenset(each.queue for each in passes),
            passes=None if replica.old or self.chance.random() < 0.5 else tuple(map(pod_pass, passes)),
            bind_queues=None if replica.old else frozenset(each.queue for each in passes if each.bind),
        )
        replica.settling.append((self.tick_version(), self.now))
        # Time goes by between two renewals: what is passed later has a later time.
        self.pass_time(0.001)

    def lose(self, replica: Replica) -> None:
        """Its process ends, or it is stopped: nothing that it passed is known any more."""
        replica.answers, replica.lost_at, replica.killed = False, self.now, True
        self.killed_until = self.now + LEASE + REQUEST
        if replica is not self.leader:
            self.lost_version = None

    def leave(self, replica: Replica) -> None:
        """It ends in order: it deletes its Lease once no bind is under way that only it knows of."""
        replica.answers, replica.lost_at, replica.killed = False, self.now - LEASE, False
        if replica is not self.leader:
            self.lost_version = None

    def delete_lease(self, replica: Replica) -> None:
        """As anybody may. The replica does not know that yet."""
        replica.deleted, replica.noticed_at = (self.tick_version(), self.now), None
        if replica is not self.leader:
            self.lost_version = None

    def renew(self, replica: Replica) -> None:
        """It finds that its Lease is gone and creates another one. It lists the queues before it answers."""
        replica.deleted = replica.noticed_at = None
        if not self.rules.no_gap:
            replica.queues_at = len(self.specs) - 1
        self.publish(replica)

    def has_other_binds(self, replica: Replica) -> bool:
        return any(
            each.bind and not each.assumed and is_other(each.name) for each in replica.passes.open_passes()
        )

    def come_back(self, replica: Replica) -> None:
        """As a new process: it lists all there is before it answers. The former one is seen to be gone."""
        if self.lost_version is None:
            self.lost_version, self.lost_killed = self.version, self.lost_killed or replica.killed
        replica.passes = BindPasses(clock=self.clock, request_seconds=REQUEST)
        replica.queues_at, replica.pods_at = len(self.specs) - 1, len(self.changes)
        replica.answers, replica.lost_at, replica.settling = True, None, []
        replica.deleted, replica.watches_since = None, (self.tick_version(), self.now)
        replica.marked = {pod for pod in self.pods if self.is_marked(pod)}
        self.publish(replica)
        if replica is self.leader:  # a new process, in a term of its own
            self.lead(self.replicas.index(replica))

    def see_label(self, server: int) -> None:
        self.label_at[server] = self.chance.randint(self.label_at[server] + 1, len(self.labels) - 1)

    # The leader

    def wants_guard(self) -> bool:
        return not self.spec_of(self.leader).schedules(CHILD) and bool(self.bindable(self.leader))

    def write_guard(self) -> None:
        version, token = self.labels[-1]
        wanted = self.wants_guard()
        if wanted and token != self.token:
            self.labels.append((self.tick_version(), self.token))
        elif not wanted and token:
            self.guards.clear()
            # Whatever becomes of this write, the label that is written next is another one.
            self.token = self.token if self.rules.unfenced else self.tick_version()
            self.paused.append(Write("guard off", "", version, None))

    def probe(self) -> None:
        token = self.labels[-1][1]
        asked = (0,) if self.rules.one_server else (0, 1)
        if token == self.token and all(self.labels[self.label_at[s]][1] for s in asked):
            self.guards.setdefault(NAMESPACE, self.now)

    def views(self) -> tuple[ReplicaView, ...]:
        """As the Leases say: a replica that is gone counts until its Lease has run out."""
        views = []
        for replica in self.replicas:
            if replica is self.leader or self.is_gone(replica) or replica.view is None:
                continue
            view = replica.view
            if self.rules.silence_is_none:
                view = ReplicaView(
                    name=view.name,
                    queues=view.queues,
                    pods=view.pods if view.pods is not None else self.version,
                    open_queues=view.open_queues or frozenset(),
                    passes=view.passes,
                    bind_queues=view.bind_queues or frozenset(),
                )
            views.append(view)
        return tuple(views)

    def is_gone(self, replica: Replica) -> bool:
        """Whether the leader takes it for gone. It does not know of Leases deleted before it watched them."""
        if replica.deleted is not None and replica is not self.leader:
            if self.rules.absence_is_end or replica.deleted[0] < self.leader.watches_since[0]:
                return True
            replica.noticed_at = self.now if replica.noticed_at is None else replica.noticed_at
            return self.now > replica.noticed_at + LEASE
        return replica.lost_at is not None and self.now >= replica.lost_at + LEASE

    def uncounted(self) -> bool:
        """Whether somebody is gone, as the Leases say, and what it let through is not counted yet."""
        gone = any(map(self.is_gone, self.replicas))
        return (self.lost_version is None and gone) or (self.lost_version or -1) >= 0

    def count_lost(self) -> bool:
        """Whether what lost replicas may have let through is counted; the pods must be new enough for it.

        A new process counts what former ones let through once none of them answers any more.
        """
        if not self.rules.uncertain and self.now < self.leader.watches_since[1] + LEASE:
            self.lost_version = self.version
            return False
        gone = [replica for replica in self.replicas if self.is_gone(replica)]
        if self.lost_version is None:
            if not gone:
                return True  # its Lease still counts, and it has not seen what comes
            self.lost_version = self.version
            self.lost_killed = self.lost_killed or any(
                replica.killed or (replica.deleted is not None and not self.rules.absence_is_end)
                for replica in gone
            )
        if self.lost_version >= 0:
            if not self.rules.blind and self.pods_version(self.leader) < self.lost_version:
                return False
            binds = self.lost_killed and not self.rules.forget_binds
            for pod in self.bindable(self.leader):
                if is_other(pod):
                    if binds:
                        self.leader.passes.assume_bind(namespace=NAMESPACE, name=pod, queue=CHILD)
                elif self.rules.assume_briefly:
                    self.leader.passes.record_bind_pass(
                        request="lost", namespace=NAMESPACE, name=pod, queue=CHILD, by_scheduler=True
                    )
                else:
                    self.leader.passes.assume_pass(namespace=NAMESPACE, name=pod, queue=CHILD)
            self.lost_version, self.lost_killed = -1, False
        return True

    def to_retry(self) -> list[str]:
        """The pods of assumed passes, while their queue does not schedule."""
        if self.spec_of(self.leader).schedules(CHILD):
            return []
        waiting = set(self.bindable(self.leader))
        passes = self.leader.passes.open_passes()
        return [each.name for each in passes if each.assumed and not each.bind and each.name in waiting]

    def retry(self, pod: str) -> None:
        self.leader.passes.record_retry(NAMESPACE, pod)
        if self.pods[pod] != "bound" and not self.is_marked(pod):
            self.changes.append(PodChange(self.tick_version(), pod, "marked"))
        if self.rules.retry_asked:
            self.leader.passes.end_attempt(NAMESPACE, pod)

    def look(self, queue: str) -> None:
        snapshot = self.looked_at[queue] = self.spec_of(self.leader)
        if snapshot.schedules(queue):
            self.stops.pop(queue, None)
            self.acknowledged.pop(queue, None)
            return
        named = (
            snapshot.generations[queue == CHILD : (queue == CHILD) + 1] if self.rules.by_generation else None
        )
        names = named or snapshot.named(queue)
        if self.acknowledged.get(queue) == names:
            return
        places = named or self.places(snapshot, queue)
        if self.stops.get(queue, (None,))[0] != places:
            self.stops[queue] = (places, snapshot.version, False)
            self.read_version.pop(queue, None)
        _, since, holds = self.stops[queue]
        views = self.views()
        counted = self.count_lost()
        if replicas_have_seen(views, since=since):
            self.read_version.setdefault(queue, self.version)
        evidence = self.evidence(snapshot.scope(queue), since, views, self.read_version.get(queue), counted)
        if holds or (self.old_rule_holds(evidence) if self.rules.blind else may_acknowledge(evidence)):
            self.stops[queue] = (places, since, True)
            self.acknowledged[queue] = names
            said = Acknowledged(snapshot.named(queue), snapshot.generations[queue == CHILD])
            self.paused.append(Write("acknowledge", queue, self.version_known(queue), said))

    def places(self, spec: Spec, queue: str) -> tuple[int, ...]:
        places = spec.places(queue)
        return (places[0], 0) if self.rules.place_alone and queue == PARENT and spec.below else places

    def version_known(self, queue: str) -> int:
        """The version of the queue's object that the leader holds."""
        at = self.spec_of(self.leader).version
        return max((v for v in (self.status_version[queue],) if v <= at), default=0)

    def evidence(
        self,
        queues: frozenset[str],
        since: int,
        views: tuple[ReplicaView, ...],
        pods_since: int | None,
        counted: bool,
    ) -> Evidence:
        bindable = self.bindable(self.leader)
        here = bool(bindable) and CHILD in queues
        place = BindableNamespace(CHILD, NAMESPACE, any(map(is_other, bindable)))
        return Evidence(
            queues=queues,
            since=since,
            pods_since=pods_since,
            pods=self.pods_version(self.leader),
            replica_views=views,
            unaccounted=not counted,
            bindable_namespaces=(place,) if here else (),
            guards=self.guards,
            passes=tuple(map(self.leader_pass, self.leader.passes.open_passes_of(queues))),
            unlabelled=UnlabelledView(at=self.now, listed=True),
            departures_until=math.inf,
            now=self.now,
            request_seconds=REQUEST,
            bypass_seconds=BYPASS,
            leases=self.version,
            certain_at=0.0 if self.rules.uncertain else self.leader.watches_since[1] + LEASE,
        )

    def leader_pass(self, each: BindPass) -> PodPass:
        """Of a replica that is lost it is not known whether its guard let the bind pass as well."""
        is_bind = may_be_a_bind(each, waiting_at=None, now=self.now, request_seconds=REQUEST)
        return msgspec.structs.replace(pod_pass(each), bind=each.bind or is_bind)

    def old_rule_holds(self, evidence: Evidence) -> bool:
        """The rule as it was: of pods it knows what it knows."""
        longest = self.now - REQUEST
        guarded = all(place.namespace in self.guards for place in evidence.bindable_namespaces)
        long = all(
            self.guards.get(place.namespace, longest + 1) <= longest for place in evidence.bindable_namespaces
        )
        views = evidence.replica_views or ()
        if not guarded or any(view.queues < evidence.since for view in views):
            return False
        if any(
            each.bind or self.guards.get(each.namespace, longest + 1) > longest for each in evidence.passes
        ):
            return False
        return long or not any((view.open_queues or frozenset()) & evidence.queues for view in views)

    def land(self, write: Write) -> None:
        self.paused.remove(write)
        fenced = not self.rules.unfenced
        if write.what == "guard off":
            if not fenced or self.labels[-1][0] == write.version:
                self.labels.append((self.tick_version(), 0))
            return
        if fenced and self.status_version[write.queue] != write.version:
            self.acknowledged.pop(write.queue, None)
            return
        assert write.value is not None
        self.status[write.queue] = write.value
        self.status_version[write.queue] = write.version if fenced else self.status_version[write.queue]


def is_other(pod: str) -> bool:
    """Whether its scheduler calls no filter."""
    return pod.startswith("u")


def pod_pass(each: BindPass) -> PodPass:
    return PodPass(queue=each.queue, namespace=each.namespace, name=each.name, bind=each.bind)


def run(rules: Rules, *, seed: int, steps: int, opening: Sequence[str] = (), old: bool = False) -> int:
    """One history: the first actions whose names begin so, then whatever comes. How many stops were
    acknowledged. Raises `Violation`."""
    cluster = Cluster(rules, random.Random(seed), old=old)
    for name in opening:
        cluster.do(name)
    for _ in range(steps):
        cluster.step()
    return sum(what.startswith("land acknowledge") for what in cluster.trace)
