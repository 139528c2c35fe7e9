"""The sandbox takes everything in it along when it ends, also what nobody wrote down."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster import processes
from localcluster.components import until
from localcluster.exceptions import StartFailed
from localcluster.layout import Layout
from localcluster.pods import lifecycle, sandbox
from localcluster.pods.layout import NodeLayout, nodes_of
from tests.support.skipping import skip_unless_ci


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    """The folder of a cluster of which nothing runs afterwards."""
    layout = Layout.at(tmp_path / "cluster")
    try:
        sandbox.check_machine(layout.folder)
    except StartFailed as exc:
        skip_unless_ci(f"NO SANDBOX, so this is not tested: {exc}")
    yield layout
    lifecycle.down(layout, say=print)


@pytest.fixture
def nodes(layout: Layout) -> tuple[NodeLayout, ...]:
    layout.logs.mkdir(parents=True)
    nodes = nodes_of(layout, 2)
    sandbox.start(layout, nodes)
    return nodes


def run_inside(layout: Layout, *command: str, node: NodeLayout | None = None) -> str:
    inside = sandbox.inside(layout, command, node=node)
    return subprocess.run(inside, check=True, capture_output=True, text=True).stdout


def test_a_process_without_our_marks_ends_with_the_sandbox(
    layout: Layout, nodes: tuple[NodeLayout, ...], tmp_path: Path
) -> None:
    """As the processes of pods: they have another environment, session and parent."""
    lock = tmp_path / "lock"
    hold = f"flock {lock} sleep infinity > /dev/null 2>&1 < /dev/null &"
    run_inside(layout, "/usr/bin/env", "-i", "PATH=/usr/bin:/bin", "setsid", "sh", "-c", hold)
    until(lambda: is_locked(lock), what="the process in the sandbox")
    sandbox.remove(layout, nodes)
    assert not is_locked(lock)


def is_locked(lock: Path) -> bool:
    return subprocess.run(["/usr/bin/flock", "--nonblock", str(lock), "true"], check=False).returncode != 0


def test_its_mounts_and_its_network_are_not_seen_outside(
    layout: Layout, nodes: tuple[NodeLayout, ...]
) -> None:
    outside = Path("/proc/self/mountinfo").read_text(), Path("/proc/self/net/dev").read_text()
    assert "node0" in run_inside(layout, "cat", "/proc/net/dev")
    assert "node0" not in outside[1]
    mounted = run_inside(layout, "cat", "/proc/self/mountinfo")
    assert " /var/lib " in mounted
    assert nodes[1].name in mounted
    assert nodes[1].name not in outside[0]


def test_the_nodes_reach_each_other(layout: Layout, nodes: tuple[NodeLayout, ...]) -> None:
    """The second one, in its own network namespace, connects to a listener of the first one."""
    address = (nodes[0].address, 4000)
    listen = f"import socket; socket.create_server({address}).accept()[0].send(b'hello')"
    connect = (
        f"import socket, time\nwhile True:\n try: print(socket.create_connection({address}).recv(9)); break"
        "\n except OSError: time.sleep(0.05)"
    )
    command = sandbox.inside(layout, ["/usr/bin/env", "python3", "-c", listen])
    with subprocess.Popen(command) as listener:
        assert "hello" in run_inside(layout, "/usr/bin/env", "python3", "-c", connect, node=nodes[1])
        assert listener.wait() == 0


def test_nothing_is_left_of_its_cgroups_and_processes(layout: Layout, nodes: tuple[NodeLayout, ...]) -> None:
    """Also of cgroups that kubelet has made below."""
    for node in nodes:
        sandbox.make_cgroup(node)
        for hierarchy in sandbox.hierarchies():
            (hierarchy / node.cgroup / "kubepods").mkdir()
    sandbox.remove(layout, nodes)
    assert processes.find(layout.folder) == ()
    assert [path for path in sandbox.CGROUPS.rglob(f"{nodes[0].cgroup}*") if path.is_dir()] == []


@pytest.mark.parametrize(
    ("without", "problem"),
    [("sys_admin", "unshare: unshare failed"), ("net_admin", "`ip link set lo up` failed")],
)
def test_a_machine_that_lets_root_do_less_is_refused_by_what_failed(without: str, problem: str) -> None:
    """As in a container without rights. Nothing was built before."""
    call = "from localcluster.pods import sandbox; sandbox.check_kernel()"
    limited = ("setpriv", f"--bounding-set=-{without}", f"--inh-caps=-{without}")
    done = subprocess.run([*limited, sys.executable, "-c", call], capture_output=True, text=True, check=False)
    assert f"although it is Linux and this is root: {problem}" in done.stderr


def test_a_second_sandbox_beside_it_is_no_trouble(layout: Layout, nodes: tuple[NodeLayout, ...]) -> None:
    """The same addresses, in other namespaces."""
    other = Layout.at(layout.folder.with_name("other"))
    other.logs.mkdir(parents=True)
    try:
        sandbox.start(other, nodes_of(other, 1))
        assert sandbox.find_init(other) != sandbox.find_init(layout)
    finally:
        lifecycle.down(other, say=print)
    assert sandbox.find_init(layout) is not None
