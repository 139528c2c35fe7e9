"""Rounds of one queue that is stopped and resumed while its members flow, and replicas are in trouble."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.support.e2e.api_requests import Api
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.objects import pod_body
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.stop import Stop
from tests.support.e2e.wait import until

#: Members that wait when a round begins; members and pods of no queue that are made while it is stopped.
BACKLOG, LATE, OTHERS = 30, 3, 3


class NothingWrong:
    """What is done to the fleet in each round; the others add to it."""

    rounds = 6

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    def before(self) -> None:
        """Before the stop is asked for."""

    def amid(self, number: int) -> None:
        """Once it is asked for."""

    def after(self) -> None:
        """When it has been held for a while."""


class Rounds:
    """One queue that is stopped and resumed again and again while its members flow."""

    def __init__(self, own_sandbox: Sandbox, trouble: NothingWrong) -> None:
        self._sandbox, self._trouble = own_sandbox, trouble
        self._queue = own_sandbox.queue()
        self._made = 0

    def stopped_in_mid_flow(self, number: int) -> list[str]:
        """Who was bound while it was stopped: of those who waited then, and of those made since."""
        self._flowing()
        self._trouble.before()
        stop = self._stopped(number)
        for name in self._fresh(LATE):
            until(partial(self._taken, name), "a pod to be taken")  # some replica takes none
        self._sandbox.all_bound(self._sandbox.pods(f"other-{number}", OTHERS))
        through = sorted({*stop.bound_since(), *stop.binds_behind_the_mark()})
        self._trouble.after()
        return through

    def end(self) -> None:
        """All that are left arrive in the end."""
        self._open()
        self._sandbox.all_bound(self._sandbox.read_pods())

    def _flowing(self) -> None:
        """As many members as there should be wait, and the first of them are being bound."""
        own_sandbox = self._sandbox
        waiting = own_sandbox.waiting()
        fresh = self._fresh(BACKLOG - len(waiting))
        self._open()
        own_sandbox.flood(pod_body(name, self._queue) for name in fresh)
        until(lambda: own_sandbox.bound([*waiting, *fresh]), "the flow to be under way", share=0)

    def _fresh(self, count: int) -> list[str]:
        self._made += count
        return [f"member-{number}" for number in range(self._made - count, self._made)]

    def _taken(self, name: str) -> bool:
        return self._sandbox.pod(name, self._queue).status in (201, 409)

    def _open(self) -> None:
        # What is sent on a connection that dies in that moment fails, and is for its sender to repeat.
        until(lambda: self._sandbox.patch_queue(self._queue, state="Open").status == 200, "a resume")

    def _stopped(self, number: int) -> Stop:
        """The stop, acknowledged; the trouble comes when it is asked for."""
        with ThreadPoolExecutor(1) as pool, Api(self._sandbox.cluster) as api:
            stopping = pool.submit(Stop, self._sandbox, self._queue)
            until(lambda: self._asked_for(api) or stopping.done(), "the stop to be asked for")
            self._trouble.amid(number)
            return stopping.result()

    def _asked_for(self, api: Api) -> bool:
        return bool(api.get(f"{QUEUES}/{self._queue}").must().body["spec"]["state"] == "Suspended")
