"""From an earlier version to this one and back, one replica at a time, with members in every state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localcluster import manifests
from tests.conftest import NewCluster
from tests.e2e.windows.test_both_edges import HOUR, freeze
from tests.e2e.windows.test_both_edges import now as moment
from tests.support.drain.draining import (
    DRAIN,
    NONE,
    budget,
    wait_for_allowed,
    wait_for_drain,
    wait_for_running,
)
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.objects import GATE, gates, is_stopped
from tests.support.e2e.previous_version import Version, previous_version, this_version
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import settled, until
from tests.support.e2e.workloads import DEPLOYMENT, work_body

pytestmark = pytest.mark.long

#: As docs/operating/upgrade.md says it: definitions and roles before the replicas, policies and webhooks
#: after them; and the other way round on the way back. So no replica meets a definition that is older
#: than itself, nor a webhook that is newer.
FIRST = ("crds", "rbac")
LAST = ("policies", "webhooks")


@pytest.fixture
def sandbox(new_cluster: NewCluster) -> Iterator[Sandbox]:
    made = Sandbox(new_cluster())
    yield made
    made.close()


@pytest.fixture
def fleet(sandbox: Sandbox, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(sandbox.cluster, tmp_path)
    yield made
    made.close()


def test_an_upgrade_and_the_way_back_lose_nothing(sandbox: Sandbox, fleet: Fleet, tmp_path: Path) -> None:
    """No pod of a stopped queue is bound, no creation of a member fails, and all run when it is resumed.

    While replicas of both versions run, a stop may wait for what the older ones do not say; it holds.
    """
    old, new = previous_version(tmp_path), this_version(tmp_path)
    old.apply(sandbox.cluster)
    for name in ("old-1", "old-2"):
        fleet.join(name, prefix=old.prefix)
    work = Work(sandbox)

    new.apply(sandbox.cluster, *FIRST)
    replace(
        fleet,
        before=["old-1", "old-2"],
        after=["new-1", "new-2"],
        version=new,
        work=work,
        mixed=work.begin_window,
    )
    work.is_in_window()
    new.apply(sandbox.cluster, *LAST)
    await_ca_bundles(sandbox)
    work.go_on(mixed=False)
    sandbox.edit(work.stopped, parked="Recreate")
    assert sandbox.read_queue(work.stopped)["spec"]["parked"] == "Recreate"
    work.finish_drain()
    work.resume()

    work.stop_again()
    old.apply(sandbox.cluster, *LAST)
    replace(fleet, before=["new-1", "new-2"], after=["old-3", "old-4"], version=old, work=work)
    old.apply(sandbox.cluster, *FIRST)
    until(lambda: "parked" not in sandbox.read_queue(work.stopped)["spec"], "the old definition to be served")
    work.go_on(mixed=False)
    work.resume()


def replace(
    fleet: Fleet,
    *,
    before: list[str],
    after: list[str],
    version: Version,
    work: Work,
    mixed: Callable[[], None] = lambda: None,
) -> None:
    """One replica after the other, as a roll-out does, with work at each step. `mixed`: more of it, while one
    of each version runs."""
    fleet.join(after[0], prefix=version.prefix)
    work.go_on(mixed=True)
    fleet.leave(before[0])
    work.go_on(mixed=True)
    mixed()
    fleet.join(after[1], prefix=version.prefix)
    fleet.leave(before[1])
    work.go_on(mixed=False)


def await_ca_bundles(sandbox: Sandbox) -> None:
    cluster = sandbox.cluster
    until(lambda: manifests.have_ca_bundle(cluster.layout, cluster.ports), "each webhook to have a caBundle")


class Work:
    """What users have in the cluster. For one thread.

    `stopped` has pods with the gate and, by filter, without one; `running` has what runs; the budget of
    `drained` lets nothing go.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.stopped, self._running, self._drained = (
            sandbox.queue(name) for name in ("stopped", "running", "drained")
        )
        self._rounds = 0
        self.stop_again()
        sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "web", self._running, replicas=2)).must(201)
        sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "db", self._drained, replicas=2)).must(201)
        wait_for_running(sandbox, 2, "db-")
        wait_for_running(sandbox, 2, "web-")
        self._budget = budget(sandbox, "db", {"app": "db"}, minAvailable=2)
        wait_for_allowed(sandbox, self._budget, 0)
        sandbox.patch_queue(self._drained, stopPolicy=DRAIN).must()

    def stop_again(self) -> None:
        """Stop the queue while a pod of it is pending, and create more."""
        self._rounds += 1
        pending = self._sandbox.pods(f"pending-{self._rounds}", 2, self.stopped, gated=True)
        self._sandbox.suspend(self.stopped)
        self._sandbox.ungate(pending)
        self._waiting = {*pending, *self._sandbox.pods(f"parked-{self._rounds}", 2, self.stopped)}

    def begin_window(self) -> None:
        """Write a window that is on, while a replica runs that knows none: whichever leads, it is not said
        that nothing is bound any more.
        """
        sandbox = self._sandbox
        self._windowed = sandbox.queue("windowed")
        sandbox.patch_queue(self._windowed, windows=[freeze(moment() - HOUR, moment() + HOUR)]).must()
        assert not settled(lambda: is_stopped(sandbox.read_queue(self._windowed)), "the queue")

    def is_in_window(self) -> None:
        """The last replica that knew none is gone: the window stops its queue, and that is acknowledged."""
        sandbox = self._sandbox
        sandbox.queue_that(self._windowed, "be in its window", is_stopped)
        late = sandbox.pods("windowed", 1, self._windowed)
        sandbox.reason_on(late[0], "of window freeze")
        sandbox.patch_queue(self._windowed, windows=None).must()
        sandbox.all_bound(late)

    def go_on(self, *, mixed: bool) -> None:
        """What users do meanwhile: submit to both queues; stop another one, and resume it.

        `mixed`: replicas of both versions run, and the stop need not be acknowledged.
        """
        self._rounds += 1
        sandbox = self._sandbox
        sandbox.all_bound(sandbox.pods(f"member-{self._rounds}", 2, self._running))
        late = sandbox.pods(f"late-{self._rounds}", 1, self.stopped)
        assert GATE in gates(sandbox.read_pod(late[0]))
        self._waiting |= set(late)
        sandbox.patch_queue(self._running, state="Suspended").must()
        if not mixed:
            sandbox.queue_that(self._running, "be stopped", is_stopped)
            sandbox.queue_that(self.stopped, "be stopped", is_stopped)
        held = sandbox.pods(f"held-{self._rounds}", 1, self._running)
        sandbox.patch_queue(self._running, state="Open").must()
        sandbox.all_bound(held)
        self._check_stop()
        wait_for_running(sandbox, 2, "db-")

    def _check_stop(self) -> None:
        assert not self._sandbox.bound(self._waiting)
        assert not [bind for bind in self._sandbox.binds() if bind.bound and bind.pod in self._waiting]

    def finish_drain(self) -> None:
        """Without its budget it ends, and is given back."""
        self._sandbox.api.delete(self._budget).must()
        wait_for_drain(self._sandbox, self._drained, "Drained")
        self._sandbox.edit(self._drained, stopPolicy=NONE)
        wait_for_running(self._sandbox, 2, "db-")

    def resume(self) -> None:
        """Everything that waited runs, pods that were created again in its place included."""
        self._check_stop()
        self._sandbox.edit(self.stopped, state="Open")
        self._sandbox.all_bound(self._waiting)
        self._waiting = set()
