"""Replacements of the authority under any order of requests of three replicas, restarts, pauses and requests.

Each replica runs the real code in a thread of its own, and every request that it sends waits for its turn. So
the model decides which request comes next, and may leave one replica in the middle of a round for long.

What must hold at each moment: every certificate that a replica may hand out is trusted by each API server,
which may be late by less than the grace, and by the scheduler, whose copy somebody makes from the ConfigMap,
once they are told to.
"""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from certs.authority import LEAF_VALIDITY, fingerprint, split
from certs.rotation import GRACE, AuthorityState
from certs.secret_store import AuthoritySecret
from certs.shared_authority import SharedAuthority
from cluster.exceptions import Refused
from tests.support.certs.stored_objects import CONFIGURATIONS, StoredObjects
from tests.support.examples import examples

NAMESPACE = "sluice-system"
SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/sluice-ca"
CONFIG_MAP = f"/api/v1/namespaces/{NAMESPACE}/configmaps/sluice-ca"
BEGIN = datetime(2030, 1, 1, tzinfo=UTC)
WAIT = timedelta(days=30)
REPLICAS = ("a", "b", "c")
#: How late an API server may know of a configuration.
LATE = GRACE.total_seconds() - 5


class Killed(BaseException):
    """Ends the thread of a replica in the middle of a round."""


class World:
    """What all share: the objects, the time, and what callers trust."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.api = StoredObjects()
        self.copy: frozenset[str] = frozenset()
        #: By configuration: what it had, and since when.
        self.had: dict[str, list[tuple[float, frozenset[str]]]] = {path: [] for path in CONFIGURATIONS}

    @property
    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.seconds)

    def note(self) -> None:
        for path, had in self.had.items():
            webhooks = self.api.objects[path]["webhooks"]
            for trusts in {_names(each["clientConfig"].get("caBundle", "")) for each in webhooks}:
                if not had or had[-1][1] != trusts:
                    had.append((self.seconds, trusts))

    def trusted(self) -> list[frozenset[str]]:
        """What some API server may go by now."""
        return [
            trusts
            for had in self.had.values()
            for (_, trusts), (until, _) in zip(had, [*had[1:], (float("inf"), frozenset())], strict=True)
            if until > self.seconds - LATE
        ]

    def names_next(self) -> bool:
        return "; next " in self.api.objects.get(CONFIG_MAP, {"data": {}})["data"].get("status", "")

    def in_config_map(self) -> frozenset[str]:
        data = self.api.objects.get(CONFIG_MAP, {"data": {"ca.crt": ""}})["data"]
        return frozenset(map(fingerprint, split(data["ca.crt"].encode())))


def _names(text: str) -> frozenset[str]:
    return frozenset(map(fingerprint, split(base64.b64decode(text))))


class Replica:
    """Advances request by request: `step` sends the one that waits, and returns before the next one."""

    def __init__(self, name: str, world: World, fleet: dict[str, Replica]) -> None:
        self.name, self.world, self._fleet = name, world, fleet
        self._go, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._killed = False
        self.in_round = False
        #: What the files hold, with the end of the certificate; what the worker still hands out; what the
        #: Lease says.
        self.written: tuple[str, datetime] | None = None
        self.served: tuple[str, datetime] | None = None
        self.issuer: str | None = None
        secret = AuthoritySecret(self, namespace=NAMESPACE, name="sluice-ca")  # type: ignore[arg-type]
        self._shared = SharedAuthority(
            self,  # type: ignore[arg-type]
            secret=secret,
            wait=WAIT,
            issuers=lambda: {each.name: each.issuer for each in fleet.values()},
            clock=lambda: world.seconds,
            now=lambda: world.now,
        )
        self._thread = threading.Thread(target=self._run, name=f"replica-{name}", daemon=True)
        self._thread.start()

    def step(self) -> None:
        self.in_round = True
        self._go.release()
        assert self._paused.acquire(timeout=60)

    def finish(self) -> None:
        self.step()
        while self.in_round:
            self.step()

    def look(self) -> None:
        """The worker looks at the files."""
        self.served = self.written

    def end(self) -> None:
        self._killed = True
        self._go.release()
        self._thread.join(timeout=30)

    # The client's calls.

    def get(self, path: str, **query: str | int) -> bytes:
        with self._turn():
            return self.world.api.get(path, **query)

    def create(self, path: str, body: Any, **query: str) -> bytes:
        with self._turn():
            return self.world.api.create(path, body, **query)

    def patch(self, path: str, body: Any, **options: str) -> bytes:
        with self._turn():
            return self.world.api.patch(path, body, **options)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        self._paused.release()
        self._await_turn()
        yield

    def _await_turn(self) -> None:
        self._go.acquire()
        if self._killed:
            raise Killed

    def _run(self) -> None:
        try:
            self._await_turn()
            while True:
                with suppress(Refused):  # others wrote all the time; the next round begins anew
                    self._shared.update(self._serve)
                self.in_round = False
                self._paused.release()
                self._await_turn()
        except Killed:
            return

    def _serve(self, state: AuthorityState) -> None:
        name = fingerprint(state.current.certificate)
        if (
            self.written is None
            or self.written[0] != name
            or self.written[1] - LEAF_VALIDITY / 3 < self.world.now
        ):
            self.written = name, self.world.now + LEAF_VALIDITY
        elif self.served == self.written:
            self.issuer = name


class Replacements(RuleBasedStateMachine):
    """The rules are what may happen next; `trusted` is what must hold."""

    @initialize()
    def install(self) -> None:
        logging.disable(logging.CRITICAL)
        self.world = World()
        self.fleet: dict[str, Replica] = {}
        for name in REPLICAS:
            self.fleet[name] = Replica(name, self.world, self.fleet)
        self.settle()
        self.copy()

    def teardown(self) -> None:
        logging.disable(logging.NOTSET)
        for each in getattr(self, "fleet", {}).values():
            each.end()

    def settle(self) -> None:
        """Everybody is done with what was begun, and has had time for more."""
        for _ in range(2):
            for each in self.fleet.values():
                each.finish()
                each.look()
                self.world.note()
            self.world.seconds += 61

    @rule(name=st.sampled_from(REPLICAS), requests=st.integers(1, 9))
    def go_on(self, name: str, requests: int) -> None:
        for _ in range(requests):
            self.fleet[name].step()
            self.world.note()
            self.trusted()

    @rule(name=st.sampled_from(REPLICAS))
    def worker_looks(self, name: str) -> None:
        self.fleet[name].look()

    @rule(seconds=st.sampled_from([1, 5, 31, 62]))
    def time_passes(self, seconds: int) -> None:
        for each in self.fleet.values():
            each.look()  # within a second
        self.world.seconds += seconds

    @rule(days=st.sampled_from([1, 31, 370, 3000]))
    def days_pass(self, days: int) -> None:
        """Nobody is paused for days; and somebody reads the log."""
        self.settle()
        self.copy()
        self.world.seconds += days * 86_400
        self.settle()
        self.copy()

    @rule(name=st.sampled_from(REPLICAS))
    def restart(self, name: str) -> None:
        """It dies wherever it is; the next one serves nothing until its first round."""
        self.fleet.pop(name).end()
        self.fleet[name] = Replica(name, self.world, self.fleet)

    @rule()
    def copy(self) -> None:
        self.world.copy = self.world.in_config_map()

    @rule(word=st.sampled_from(["start", "drop", "start"]))
    def ask(self, word: str) -> None:
        self._annotate(word)

    @precondition(lambda self: self.world.names_next() and self.world.copy == self.world.in_config_map())
    @rule()
    def confirm(self) -> None:
        """Whoever confirms has read in the ConfigMap that there is a next one, and copied what is there."""
        self._annotate("switch")

    @invariant()
    def trusted(self) -> None:
        if not hasattr(self, "world"):
            return
        for each in self.fleet.values():
            for certificate in {each.written, each.served} - {None}:
                assert certificate is not None
                issuer, until = certificate
                if until > self.world.now:
                    assert all(issuer in trusts for trusts in self.world.trusted()), "an API server"
                    assert issuer in self.world.copy, "a scheduler"

    def _annotate(self, word: str) -> None:
        self.world.api.patch(SECRET, {"metadata": {"annotations": {"sluice.dev/ca-rotation": word}}})


Replacements.TestCase.settings = settings(examples(25), stateful_step_count=40)
TestReplacements = Replacements.TestCase
