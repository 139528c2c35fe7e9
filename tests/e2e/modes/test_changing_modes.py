"""The mode changes while members wait and run: none is lost, and none goes past a stop."""

from __future__ import annotations

import pytest

from queues.mode import Mode
from tests.conftest import NewCluster
from tests.support.e2e.modes import make_room, mode_of, wait_for_room
from tests.support.e2e.objects import GATE, gates, suspended_text
from tests.support.e2e.sandbox import Sandbox

pytestmark = pytest.mark.long

#: In each the server is started once more; it begins in the first.
MODES = (Mode.EXTENDER, Mode.SCHEDULER, Mode.GATE)


def test_members_of_each_mode_are_served_in_every_other(new_cluster: NewCluster) -> None:
    """In each mode a queue gets pods that run, that wait for room, and, once it is stopped, gated ones. All
    three queues stay stopped while the mode changes, until each kind was tried and refused; then all go."""
    cluster = new_cluster()
    sandbox = Sandbox(cluster)
    queues: dict[Mode, str] = {}
    pending: dict[Mode, list[str]] = {}
    for mode in MODES:
        if mode is not MODES[0]:
            cluster.change_mode(mode)
        queue = queues[mode] = sandbox.queue(mode)
        sandbox.all_bound(sandbox.pods(f"running-{mode}", 2, queue))
        pending[mode] = wait_for_room(sandbox, f"pending-{mode}", 2, queue)
        sandbox.suspend(queue)
        sandbox.pod(f"gated-{mode}", queue).must(201)
        names = [f"running-{mode}-0", f"gated-{mode}", *pending[mode]]
        assert [mode_of(sandbox.read_pod(name)) for name in names] == [mode] * 4
        assert gates(sandbox.read_pod(f"gated-{mode}")) == [GATE]
    cluster.change_mode(Mode.EXTENDER)
    waiting = {*(name for names in pending.values() for name in names), *(f"gated-{mode}" for mode in MODES)}
    make_room(sandbox)
    for mode, names in pending.items():
        for name in names:
            sandbox.reason_on(name, suspended_text(queues[mode]))
    assert sandbox.waiting() == waiting
    assert not [bind for bind in sandbox.binds() if bind.bound and bind.pod in waiting]
    for queue in queues.values():
        sandbox.edit(queue, state="Open")
    sandbox.all_bound(waiting)
    assert len(sandbox.read_pods()) == len(waiting) + 2 * len(MODES), "no running pod was touched"
    sandbox.close()
