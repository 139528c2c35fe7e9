"""Random histories of releases: two replicas that may both think that they lead, late watches, lost answers.

`ApiServer` is the truth: it has the pods and the book, and records a fault at the very write that takes a
queue over its capability. What a replica knows it has from its watch, which may be late, or from an answer.

What happens is drawn from a seed. So a history can be run again, with a rule of the product left out. So is
how often what happens (`Rates`): where each history has a little of everything, none has two rare things at
the same time.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from cluster.api.client import Client
from cluster.cache.members import Member
from cluster.exceptions import ClusterError, Conflict, NotFound, Overloaded, Refused, Unreachable
from cluster.metrics import Metrics
from cluster.objects import Pod, PodGroup
from cluster.waiting_writes import WriteKey
from controller.parts import Part
from controller.quota.book_writes import NAME
from controller.quota.releases import QuotaReleases
from controller.requests import RequestUpkeep
from extender.filtering import refusal
from queues.apimachinery.timestamps import rfc3339
from queues.drain.terminating_pods import GRACE_LIMIT
from queues.quota.book import BadBook, parse
from queues.quota.lack import Lack
from tests.support.controller.contexts import context_with
from tests.support.http.asking import Server
from tests.support.http.wire_objects import GROUP, Wire, pod, podgroup, queue
from tests.support.quota.counted_anew import miscounted
from tests.support.rules.cases import NOW

GATES = ["sluice.dev/quota"]
BOOK_PATH = f"/api/v1/namespaces/sluice-system/configmaps/{NAME}"
#: Each queue with its parent and the CPUs of its capability; None: none of its own.
QUEUES: Mapping[str, tuple[str, int | None]] = {
    "lab": ("root", 3),
    "team": ("lab", 2),
    "other": ("lab", None),
}
#: The queues of the PodGroups.
GANGS = {"gang0": "team", "gang1": "team", "gang2": "other"}
_NAMES = ("annotations", "labels")
#: The seconds that a pod has to end that is deleted.
GRACE = 30
#: How many things happen in a history before all faults end.
STEPS = 80


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """How often what happens in one history. Parts of 1, but for what begins with `weigh`."""

    #: A pod has no gate.
    ungated: float = 0.15
    #: A request fails, or it is done and the answer is lost.
    fails: float = 0.08
    unanswered: float = 0.12
    #: An admission policy refuses a patch of a pod.
    refused: float = 0.04
    #: A writer sleeps where it would have sent a release, or another request.
    sleeps: float = 0.1
    sleeps_else: float = 0.05
    #: An event comes to the second replica rather than to the first.
    second_hears: float = 0.5
    #: An event comes while a replica works.
    hears: float = 0.5
    #: One works that leads no more.
    usurped: float = 0.1
    weigh_wakes: float = 1.0
    weigh_elections: float = 2.0
    weigh_lists: float = 1.0
    weigh_lost_books: float = 1.0
    #: A policy comes that lets nobody patch a pod, or it goes.
    weigh_policies: float = 1.0
    #: A pod is changed in something of no concern.
    weigh_labels: float = 3.0
    #: A pod of a gang comes before admission knows its PodGroup; a replica comes to hear of PodGroups later
    #: than of pods, or no more; a pod is given its queue.
    unassigned: float = 0.3
    weigh_late_groups: float = 2.0
    weigh_assignments: float = 2.0


#: A little of everything.
EVEN = Rates()
_QUIET = Rates(
    fails=0.0,
    unanswered=0.0,
    refused=0.0,
    sleeps=0.0,
    sleeps_else=0.0,
    weigh_lost_books=0.0,
    weigh_policies=0.0,
    weigh_labels=0.0,
)
#: What a history has much of; each takes its turn.
RATES = (
    EVEN,
    # Writers sleep, and the book is lost.
    msgspec.structs.replace(
        _QUIET,
        sleeps=0.6,
        hears=0.9,
        unanswered=0.1,
        weigh_lost_books=12.0,
        weigh_policies=3.0,
        weigh_elections=6.0,
        weigh_wakes=0.5,
    ),
    # One of the two hears late, and leads now and then.
    msgspec.structs.replace(
        _QUIET, second_hears=0.1, hears=0.9, weigh_elections=4.0, usurped=0.5, weigh_lists=3.0
    ),
    # Pods change, while writers sleep.
    msgspec.structs.replace(EVEN, sleeps=0.5, hears=0.9, usurped=0.0, weigh_labels=8.0, weigh_lost_books=0.0),
    # Two work as if they led.
    msgspec.structs.replace(_QUIET, usurped=0.5, hears=0.3, sleeps=0.3, weigh_elections=0.3),
)


class ApiServer:
    """Pods and the book, each with resource versions of one sequence; and the events of pods."""

    def __init__(self, chance: random.Random, rates: Rates = EVEN) -> None:
        self._chance = chance
        self._rates = rates
        self.version = 100
        self.pods: dict[str, Wire] = {}
        self.groups: dict[str, Wire] = {}
        #: The least minimum that each PodGroup ever had; of which one each pod is, by UID; and of these the
        #: pods that were ever released, and those that were made with a gate.
        self._least: dict[str, int] = {}
        self._group_of: dict[str, str] = {}
        self._ever_released: set[str] = set()
        self._with_gate: set[str] = set()
        self.book: Wire | None = None
        #: Pods whose edits are refused by an answer that speaks of their version, whatever that is.
        self.conflicting: dict[str, Refused] = {}
        #: How writes of the book are refused; None: they are not.
        self.refuses_book: Refused | None = None
        #: Versions, with the pod as it was stored, or as it was deleted.
        self.events: list[tuple[int, str, Wire]] = []
        self.faults: list[str] = []
        #: Pods that a policy lets nobody patch.
        self.forbidden: set[str] = set()
        #: Whether answers may be lost, and requests refused or cut.
        self.is_rough = True
        self.now: Callable[[], datetime] = lambda: NOW

    # What users, kubelets and kube-scheduler do

    def create(
        self,
        name: str,
        of: str,
        cpu: int,
        *,
        gated: bool = True,
        priority: int = 0,
        group: str = "",
        assigned: bool = True,
        owner: Wire | None = None,
        more_gates: Sequence[str] = (),
    ) -> None:
        """`gated`: else it pends since before there was a quota. `group`: its PodGroup. `assigned`: else
        admission did not know that, and so not the queue. `owner`: its controller, as a reference.
        `more_gates`: those of others.
        """
        self.version += 1
        grouped = {GROUP: group} if group else {}
        made = pod(
            name,
            uid=f"uid-{name}-{self.version}",
            version=self.version,
            labels={"sluice.dev/queue": of if assigned else ""},
            annotations={**({"sluice.dev/queue": of} if assigned else {}), **grouped},
            gates=[*(GATES if gated else ()), *more_gates] or None,
            owner=owner,
            resources={"requests": {"cpu": str(cpu)}},
            priority=priority,
        )
        self.pods[name] = made
        if group:
            self._group_of[made["metadata"]["uid"]] = group
            self._with_gate.update([made["metadata"]["uid"]] if gated else [])
        self._record("ADDED", made)

    def set_group(self, name: str, of: str, least: int, **spec: Any) -> None:
        """Make the PodGroup, or change it."""
        self.version += 1
        uid = self.groups[name]["metadata"]["uid"] if name in self.groups else f"uid-{name}-{self.version}"
        made = podgroup(name, queue=of, version=self.version, minMember=least, **spec)
        self._least[name] = min(least, self._least.get(name, least))
        made["metadata"]["uid"] = uid
        self._record("MODIFIED" if name in self.groups else "ADDED", made)
        self.groups[name] = made

    def delete_group(self, name: str) -> None:
        self.version += 1
        gone = self.groups.pop(name)
        self._record(
            "DELETED",
            {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}},
        )

    def change(self, name: str, edit: Callable[[Wire], None]) -> Wire:
        changed: Wire = json.loads(json.dumps(self.pods[name]))
        edit(changed)
        self.version += 1
        changed["metadata"]["resourceVersion"] = str(self.version)
        self.pods[name] = changed
        self._record("MODIFIED", changed)
        return changed

    def assign(self, name: str) -> None:
        """Write its queue, once its PodGroup exists."""
        group = self.groups.get(self.pods[name]["metadata"]["annotations"].get(GROUP, ""))
        if group is not None and not self.pods[name]["metadata"]["labels"]["sluice.dev/queue"]:
            written = {"sluice.dev/queue": group["spec"]["queue"]}
            self.change(name, lambda one: self._apply(one, {"metadata": dict.fromkeys(_NAMES, written)}))

    def delete(self, name: str) -> None:
        """A pod on a node is there until its kubelet has ended it."""
        found = self.pods[name]
        if found["spec"].get("nodeName") and "deletionTimestamp" not in found["metadata"]:
            ends = {
                "deletionTimestamp": rfc3339(self.now() + timedelta(seconds=GRACE)),
                "deletionGracePeriodSeconds": GRACE,
            }
            self.change(name, lambda one: one["metadata"].update(ends))
            return
        self.version += 1
        gone = self.pods.pop(name)
        gone = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}}
        self._record("DELETED", gone)

    def _record(self, what: str, obj: Wire) -> None:
        self.events.append((self.version, what, obj))

    # What the server asks

    def client(self) -> Client:
        return cast(Client, SimpleNamespace(get=self._get, create=self._create_book, patch=self._patch))

    def _get(self, path: str) -> bytes:
        self._may_fail()
        if path != BOOK_PATH or self.book is None:
            raise NotFound(404, "NotFound", path)
        return json.dumps(self.book).encode()

    def _create_book(self, _path: str, body: Wire, **_: str) -> bytes:
        self._may_fail()
        if self.refuses_book is not None:
            raise self.refuses_book
        if self.book is not None:
            raise Conflict(409, "AlreadyExists", NAME)
        self.version += 1
        metadata = {"name": NAME, "uid": f"book-{self.version}", "resourceVersion": str(self.version)}
        self.book = {"metadata": metadata, "data": body["data"]}
        return self._answer(self.book)

    def _patch(self, path: str, body: Wire, **_: object) -> bytes:
        self._may_fail()
        if path == BOOK_PATH:
            return self._answer(self._patch_book(body))
        name = path.rpartition("/")[2]
        found = self.pods.get(name)
        if found is None:
            raise NotFound(404, "NotFound", path)
        if name in self.forbidden or (self.is_rough and self._chance.random() < self._rates.refused):
            raise Refused(422, "Invalid", "a policy denies it")
        if name in self.conflicting:
            raise self.conflicting[name]
        self._require(found, body["metadata"])
        return self._answer(self.change(name, lambda one: self._apply(one, body)))

    def _patch_book(self, body: Wire) -> Wire:
        if self.book is None:
            raise NotFound(404, "NotFound", NAME)
        if self.refuses_book is not None:
            raise self.refuses_book
        self._require(self.book, body["metadata"])
        self._check_gangs(self.book["data"], body["data"])
        self.version += 1
        metadata = {**self.book["metadata"], "resourceVersion": str(self.version)}
        self.book = {"metadata": metadata, "data": {**self.book["data"], **body["data"]}}
        return self.book

    def _check_gangs(self, before: Wire, after: Wire) -> None:
        """Record a fault if a gang begins with a part of its minimum."""
        try:
            known = parse(before.get("book", "")).intents
        except BadBook:
            return
        begun = parse(after["book"]).intents
        for group, least in self._least.items():
            of_group = {uid for uid, name in self._group_of.items() if name == group}
            if of_group & self._with_gate & (begun.keys() - known.keys()):
                there = of_group & (begun.keys() | known.keys() | self._ever_released)
                if len(there) < least:
                    self.faults.append(f"{group} begins with {len(there)} pods of {least}")

    def _apply(self, one: Wire, body: Wire) -> None:
        was_released = is_released(one)
        for place in _NAMES:
            one["metadata"][place].update(body["metadata"].get(place, {}))
        if "spec" in body:
            gates = [gate for gate in one["spec"].pop("schedulingGates", ()) if gate["name"] not in GATES]
            one["spec"].update({"schedulingGates": gates} if gates else {})
        if is_released(one) and not was_released:
            self._ever_released.add(one["metadata"]["uid"])
            self.check(one)

    def _require(self, found: Wire, wanted: Mapping[str, Any]) -> None:
        for key in ("uid", "resourceVersion"):
            if key in wanted and wanted[key] != found["metadata"][key]:
                raise Conflict(409, "Conflict", key)

    def check(self, released: Wire) -> None:
        """Record a fault if this pod takes a queue over its capability."""
        pods = [released, *(one for name, one in self.pods.items() if name != released["metadata"]["name"])]
        for name, used in uses(pods).items():
            most = QUEUES[name][1]
            if most is not None and used > most:
                self.faults.append(f"{released['metadata']['name']} takes {name} to {used} of {most}")

    def _may_fail(self) -> None:
        if self.is_rough and self._chance.random() < self._rates.fails:
            raise self._chance.choice([Unreachable("cut"), Overloaded(503, "Busy", "busy", retry_after=0.0)])

    def _answer(self, obj: Wire) -> bytes:
        if self.is_rough and self._chance.random() < self._rates.unanswered:
            raise Unreachable("it was done, and the answer is lost")
        return json.dumps(obj).encode()


def cpu_of(one: Wire) -> int:
    return int(one["spec"]["containers"][0]["resources"]["requests"]["cpu"])


def is_released(one: Wire) -> bool:
    """Whether it may be bound, or is."""
    meta, spec = one["metadata"], one["spec"]
    marked = meta["labels"].get("sluice.dev/released") == meta["uid"]
    return bool(spec.get("nodeName") or (marked and not spec.get("schedulingGates")))


def uses(pods: list[Wire]) -> dict[str, int]:
    """What each queue uses, with those below it, counted from the pods themselves."""
    used = dict.fromkeys(QUEUES, 0)
    for one in pods:
        spec, is_over = one["spec"], one["status"]["phase"] in ("Succeeded", "Failed")
        if is_over or not is_released(one):
            continue
        if "deletionTimestamp" in one["metadata"] and not spec.get("nodeName"):
            continue
        for name in chain_of(one):
            if name in used:
                used[name] += cpu_of(one)
    return used


class HeldWrites:
    """Writes that a history lets go, one by one, however late."""

    def __init__(self) -> None:
        self.held: dict[WriteKey, tuple[Callable[[], object], Callable[[bool], object]]] = {}

    def submit(
        self, key: WriteKey, write: Callable[[], object], *, done: Callable[[bool], object], **_: object
    ) -> bool:
        if key in self.held:
            return False
        self.held[key] = write, done
        return True

    def wait(self, _key: WriteKey) -> float:
        return 0.0

    def send(self, key: WriteKey, *, gives_up: bool) -> None:
        """As `WriteQueue`: what has no answer is tried again, or given up; what is refused is given up."""
        write, done = self.held[key]
        try:
            write()
        except (Unreachable, Overloaded):
            if gives_up:
                del self.held[key]
                done(False)
            return
        except (Refused, ClusterError):
            del self.held[key]
            done(False)
            return
        del self.held[key]
        done(True)


class Replica:
    """One that may lead, with the parts of the controller that quotas need, in its order. `make`: its
    `QuotaReleases`, which a test may change.
    """

    def __init__(self, api: ApiServer, make: Callable[..., QuotaReleases], **parts: Any) -> None:
        """`parts`: more of its context."""
        self.api = api
        self.server = Server()
        self.seen = 0
        self.watched = SimpleNamespace(applied=api.version)
        self.server.store.watch_progress.attach("pods", cast(Any, self.watched))
        self.server.has(
            queue("root"),
            *(
                queue(name, parent=parent, capability=None if cpu is None else {"cpu": str(cpu)})
                for name, (parent, cpu) in QUEUES.items()
            ),
        )
        self.writes = HeldWrites()
        parts.setdefault("recorder", SimpleNamespace(record=lambda *_, **__: None))
        parts.setdefault("drain_grace_limit", GRACE_LIMIT)
        parts.setdefault("metrics", Metrics())
        self.context = context_with(
            store=self.server.store,
            client=api.client(),
            writers=self.writes,
            status_writers=self.writes,
            drain_writers=self.writes,
            namespace="sluice-system",
            **parts,
        )
        self.server.store.add_listener(self.context.work_queue.add_change)
        self.said: dict[str, Lack] = {}
        #: Whether PodGroups are heard of later than pods; and what was not heard of yet.
        self.hears_groups_late = False
        self._unheard: list[tuple[str, Wire]] = []
        self._upkeep = RequestUpkeep(self.server.store, self.context.requests)
        self.releases = make(self.context, blocked=self._say)

    def _say(self, member: Member, lack: Lack) -> None:
        self.said[member.name] = lack

    def hear(self, most: int) -> None:
        """The next events of the watch; with the last one a bookmark."""
        if not self.hears_groups_late:
            self._hear_unheard()
        for version, what, obj in self.api.events[self.seen : self.seen + most]:
            if self.hears_groups_late and obj["kind"] == "PodGroup":
                self._unheard.append((what, obj))
            else:
                self._hear_of(what, obj)
            self.watched.applied = version
            self.seen += 1
        if self.seen == len(self.api.events):
            self.watched.applied = self.api.version

    def _hear_of(self, what: str, obj: Wire) -> None:
        (self.server.lacks if what == "DELETED" else self.server.has)(obj)

    def _hear_unheard(self) -> None:
        for what, obj in self._unheard:
            self._hear_of(what, obj)
        self._unheard.clear()

    def list_anew(self) -> None:
        """Its watch had ended (410)."""
        self._unheard.clear()
        missing = set(self.server.store.members._by_uid) - {
            one["metadata"]["uid"] for one in self.api.pods.values()
        }
        for uid in missing:
            member = self.server.store.members.by_uid(uid)
            assert member is not None
            self.server.lacks(pod(member.name, uid=uid, version=self.api.version))
        self.server.has(*self.api.pods.values())
        self.server.store.podgroups.replace(
            [msgspec.convert(each, PodGroup) for each in self.api.groups.values()]
        )
        self.seen, self.watched.applied = len(self.api.events), self.api.version

    @property
    def _parts(self) -> tuple[Part, ...]:
        return self._upkeep, self.releases

    def begin_term(self) -> None:
        for part in self._parts:
            part.begin_term()

    def step(self) -> None:
        self._take_changes()
        self.releases.step()
        self.server.clock.seconds += 1.0

    def send_all(self) -> None:
        for key in list(self.writes.held):
            self.writes.send(key, gives_up=False)
        self._take_changes()

    def _take_changes(self) -> None:
        """Receive the answers, and have each part record the changes."""
        changes = self.context.work_queue.get([0.0], at_once=True)
        for part in self._parts:
            part.record(changes)


class History:
    """One random history. `make`: as in `Replica`. `loses_book`: somebody deletes or spoils it. `gangs`:
    some pods are of PodGroups.
    """

    def __init__(
        self,
        seed: int,
        *,
        make: Callable[..., QuotaReleases] = QuotaReleases,
        loses_book: bool = True,
        gangs: bool = False,
    ) -> None:
        self._chance = random.Random(seed)
        self._rates = RATES[seed % len(RATES)]
        self.api = ApiServer(self._chance, self._rates)
        self.replicas = [Replica(self.api, make) for _ in range(2)]
        self._leads = self.replicas[0]
        self._loses_book = loses_book
        self._gangs = gangs
        self._made = 0
        #: The writes whose threads sleep.
        self._asleep: set[tuple[int, WriteKey]] = set()

    def run(self) -> list[str]:
        """Returns what went wrong: releases over a capability, pods that wait though they have room, and
        what counts otherwise than it should.
        """
        acts = [*self._acts()]
        weights = [weight for weight, _ in acts]
        for _ in range(STEPS):
            self._chance.choices([act for _, act in acts], weights)[0]()
            if self.api.faults:
                return self.api.faults
        self._end()
        leads = self._leads
        return self.api.faults or self._left() or miscounted(leads.releases, leads.server.store)

    def _acts(self) -> Iterator[tuple[float, Callable[[], object]]]:
        yield 8, self._create
        yield 4, lambda: self._to_one(self._bind)
        yield 4, lambda: self._to_one(self._finish)
        yield 3, lambda: self._to_one(self.api.delete)
        yield self._rates.weigh_labels, lambda: self._to_one(self._label)
        if self._gangs:
            yield 0.5, self._delete_group
            yield self._rates.weigh_late_groups, self._hear_groups_late
            yield self._rates.weigh_assignments, lambda: self._to_one(self.api.assign)
        yield 20, self._work
        yield self._rates.weigh_elections, self._elect
        yield 10, self._hear
        yield self._rates.weigh_lists, lambda: self._chance.choice(self.replicas).list_anew()
        yield 4, self._send
        yield self._rates.weigh_wakes, self._wake
        yield self._rates.weigh_policies, lambda: self._to_one(self._forbid)
        if self._loses_book:
            yield self._rates.weigh_lost_books, self._lose_book

    def _is(self, rate: float) -> bool:
        return self._chance.random() < rate

    def _create(self) -> None:
        if self._gangs and self._is(0.4):
            self._create_of_gang()
            return
        self._made += 1
        of, cpu = self._chance.choice(list(QUEUES)), self._chance.randint(1, 2)
        gated = not self._is(self._rates.ungated)
        # A later one may go first: not always is it the same pod that has the room again.
        self.api.create(f"p{self._made}", of, cpu, gated=gated, priority=self._chance.randint(0, 9))

    def _create_of_gang(self) -> None:
        """A PodGroup, or a pod of one; its pods come one by one, before it or after it."""
        self._made += 1
        name = f"gang{self._chance.randint(0, 2)}"
        of = GANGS[name]
        if name not in self.api.groups or self._is(0.1):
            self.api.set_group(name, of, self._chance.choice((1, 2, 2, 2, 3)))
        if self._is(0.9):
            gated = not self._is(self._rates.ungated)
            priority = self._chance.randint(0, 9)
            assigned = not self._is(self._rates.unassigned)
            self.api.create(
                f"p{self._made}", of, 1, gated=gated, priority=priority, group=name, assigned=assigned
            )

    def _delete_group(self) -> None:
        if self.api.groups:
            self.api.delete_group(self._chance.choice(list(self.api.groups)))

    def _to_one(self, act: Callable[[str], object]) -> None:
        if self.api.pods:
            act(self._chance.choice(list(self.api.pods)))

    def _bind(self, name: str) -> None:
        """kube-scheduler asks a replica for a pod without gates, and binds what that lets pass."""
        one = self.api.pods[name]
        if one["spec"].get("schedulingGates") or one["spec"].get("nodeName"):
            return
        asked = self._chance.choice(self.replicas)
        if refusal(msgspec.convert(one, Pod), store=asked.server.store) is None:
            self.api.check(self.api.change(name, lambda one: one["spec"].update(nodeName="node-1")))

    def _finish(self, name: str) -> None:
        if self.api.pods[name]["spec"].get("nodeName"):
            self.api.change(name, lambda one: one["status"].update(phase="Succeeded"))

    def _label(self, name: str) -> None:
        """Something of no concern changes: the pod has another version."""
        self.api.change(name, lambda one: one["metadata"]["labels"].update(note=str(self.api.version)))

    def _hear_groups_late(self) -> None:
        replica = self._chance.choice(self.replicas)
        replica.hears_groups_late = not replica.hears_groups_late

    def _forbid(self, name: str) -> None:
        self.api.forbidden ^= {name}

    def _elect(self) -> None:
        self._leads = self._chance.choice(self.replicas)
        self._leads.begin_term()

    def _hear(self) -> None:
        """One replica's watch may be later than the other's all the time."""
        replica = self.replicas[self._is(self._rates.second_hears)]
        replica.hear(self._chance.randint(1, 6))

    def _send(self) -> None:
        self._send_of(self._chance.choice(self.replicas))

    def _send_of(self, replica: Replica) -> None:
        """What a replica, the former leader too, has to write; some of it sleeps from now on."""
        for key in list(replica.writes.held):
            if (id(replica), key) in self._asleep:
                continue
            is_release = key[0] == "quota-release"
            if self._is(self._rates.sleeps if is_release else self._rates.sleeps_else):
                self._asleep.add((id(replica), key))
            else:
                replica.writes.send(key, gives_up=self._is(0.3))

    def _work(self) -> None:
        """One goes on for a while: it leads, or thinks so."""
        works = self._chance.choice(self.replicas) if self._is(self._rates.usurped) else self._leads
        for _ in range(self._chance.randint(1, 4)):
            works.step()
            self._send_of(works)
            is_late = works is self.replicas[1] and self._rates.second_hears < 0.5
            if self._is(self._rates.second_hears if is_late else self._rates.hears):
                works.hear(self._chance.randint(1, 4))

    def _wake(self) -> None:
        """A writer that slept, for however long, goes on."""
        asleep = [
            (replica, key)
            for replica in self.replicas
            for key in replica.writes.held
            if (id(replica), key) in self._asleep
        ]
        if asleep:
            replica, key = self._chance.choice(asleep)
            self._asleep.discard((id(replica), key))
            replica.writes.send(key, gives_up=True)

    def _lose_book(self) -> None:
        if self.api.book is not None and self._chance.random() < 0.5:
            self.api.book["data"] = {"book": "1 x"}
            self.api.version += 1
            self.api.book["metadata"]["resourceVersion"] = str(self.api.version)
        else:
            self.api.book = None

    def _end(self) -> None:
        """All faults end, and one replica leads. There is time for each claim to end."""
        self.api.is_rough = False
        self.api.forbidden.clear()
        for replica in self.replicas:
            replica.hears_groups_late = False
        self._elect()
        for _ in range(60):
            for name in self.api.pods:
                self.api.assign(name)
            for replica in self.replicas:
                replica.hear(len(self.api.events))
                replica.send_all()
            self._leads.step()
            self._leads.server.clock.seconds += 20.0
            if self.api.faults or self._is_quiet():
                return

    def _is_quiet(self) -> bool:
        """Whether nothing is under way, and nothing left."""
        is_idle = all(each.seen == len(self.api.events) and not each.writes.held for each in self.replicas)
        return is_idle and not self._left()

    def _left(self) -> list[str]:
        """The pods that wait though they have room."""
        used = uses(list(self.api.pods.values()))
        waiting = {name: one for name, one in self.api.pods.items() if may_wait(one)}
        ungated = [one for one in waiting.values() if not one["spec"].get("schedulingGates")]
        #: Those without a gate count for all others: they may have been let through.
        assumed = {queue: sum(cpu_of(one) for one in ungated if queue in chain_of(one)) for queue in QUEUES}
        left = []
        for name, one in waiting.items():
            is_gated = one["spec"].get("schedulingGates")
            counted = {queue: used[queue] + (assumed[queue] if is_gated else 0) for queue in QUEUES}
            limits = [(queue, QUEUES[queue][1]) for queue in chain_of(one)]
            asked = self._asked_with(one) if is_gated else [one]
            cpu = sum(map(cpu_of, asked))
            if asked and all(most is None or counted[queue] + cpu <= most for queue, most in limits):
                left.append(f"{name} waits though it has room")
            elif is_gated and name not in self._leads.said and one["metadata"]["labels"]["sluice.dev/queue"]:
                left.append(f"{name} waits and nobody says why")
        return left

    def _asked_with(self, one: Wire) -> list[Wire]:
        """The pods with which it goes, itself among them or not; none while it may not go."""
        name = one["metadata"]["annotations"].get(GROUP)
        if name is None:
            return [one]
        group = self.api.groups.get(name)
        if group is None:
            return []
        pods = [each for each in self.api.pods.values() if each["metadata"]["annotations"].get(GROUP) == name]
        missing = group["spec"]["minMember"] - sum(map(is_there, pods))
        if group["spec"]["minMember"] <= 1 or missing <= 0:
            return [one]
        waiting = [each for each in pods if may_wait(each) and each["spec"].get("schedulingGates")]
        return waiting[:missing] if len(waiting) >= missing else []


def is_there(one: Wire) -> bool:
    """Whether it counts for the minimum of its gang."""
    is_over = one["status"]["phase"] in ("Succeeded", "Failed")
    is_placed = is_released(one) and "deletionTimestamp" not in one["metadata"]
    return one["status"]["phase"] == "Succeeded" if is_over else is_placed


def may_wait(one: Wire) -> bool:
    is_over = one["status"]["phase"] in ("Succeeded", "Failed")
    return not (is_over or is_released(one) or "deletionTimestamp" in one["metadata"])


def chain_of(one: Wire) -> list[str]:
    chain = [one["metadata"]["labels"]["sluice.dev/queue"] or GANGS[one["metadata"]["annotations"][GROUP]]]
    while (parent := QUEUES.get(chain[-1], ("", None))[0]) in QUEUES:
        chain.append(parent)
    return chain
