"""Starts the processes of a cluster, finds them again, and ends them.

Invariants
- Two environment variables of a process name its cluster and its component. So no process is ever lost, even
  if the command that started it was killed before it could write a pid file, and a pid that was reused by
  another program is never taken for ours.
- Each component leads its own session, and so its own process group.
- A signal is sent only to a process that was found this way a moment before.
- A process that ends loses its environment before its sockets. So `stop` and `kill` wait until it has no
  sockets any more: the next process may need the same port.

Linux only: it reads /proc.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

CLUSTER = "SLUICE_LOCAL_CLUSTER"
COMPONENT = "SLUICE_LOCAL_COMPONENT"
_MARK = f"{CLUSTER}=".encode()
#: Variables with these prefixes are flags to etcd and kwok; a component does not inherit them.
_FLAG_PREFIXES = ("ETCD_", "KWOK_")
#: Nor these, in any case: all that a component talks to is here, and not all of it on the loopback.
_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"})
#: Signals that a shell may have set to be ignored; a component starts with the default actions.
_DEFAULT_SIGNALS = (signal.SIGPIPE, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)


#: Started by this very process, which has to reap them.
_children: set[int] = set()


@dataclass(frozen=True)
class Process:
    """A running process of a cluster: a component, which leads its session, or a child of one."""

    pid: int
    component: str
    session: int

    @property
    def leader(self) -> bool:
        return self.pid == self.session


def spawn(command: Sequence[str], *, folder: Path, component: str, log: Path) -> int:
    """Start the component in its own session, with its output appended to `log`; returns its pid."""
    log.parent.mkdir(parents=True, exist_ok=True)
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        command[0],
        list(command),
        {**_environment(os.environ), CLUSTER: str(folder), COMPONENT: component},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=_DEFAULT_SIGNALS,
    )
    _children.add(pid)
    _until_marked(pid)
    return pid


def find(folder: Path) -> tuple[Process, ...]:
    """Every running process of the cluster in `folder`, whoever started it."""
    return tuple(
        Process(pid, marks[COMPONENT], session=_session(pid))
        for pid, marks in _marked()
        if marks[CLUSTER] == str(folder)
    )


def clusters() -> frozenset[Path]:
    """The folder of every cluster on this machine that has a running process."""
    return frozenset(Path(marks[CLUSTER]) for _, marks in _marked())


def leaders(folder: Path) -> dict[str, int]:
    """The pid of each component that runs."""
    return {each.component: each.pid for each in find(folder) if each.leader}


def pids(folder: Path, component: str) -> list[int]:
    """The pids of the component and of its child processes."""
    return [each.pid for each in find(folder) if each.component == component]


def stop(
    folder: Path,
    *,
    components: Iterable[str] | None = None,
    keep: Iterable[int] = (),
    grace: float = 10,
) -> None:
    """End these components (default: all) with their child processes; returns once they are gone.

    Sends SIGTERM to the leaders, and SIGKILL to what is left once they are gone or after `grace` seconds.
    Leaves the sessions in `keep` alone.
    """
    wanted = None if components is None else frozenset(components)
    kept_sessions = frozenset(keep)

    def remaining_processes() -> list[Process]:
        return [
            each
            for each in find(folder)
            if (wanted is None or each.component in wanted) and each.session not in kept_sessions
        ]

    ending = remaining_processes()
    for each in ending:
        if each.leader:
            _signal(each.pid, signal.SIGTERM)
            _signal(-each.pid, signal.SIGCONT)  # the whole group: SIGSTOP would keep SIGTERM pending
    end = time.monotonic() + grace
    _wait(lambda: not any(each.leader for each in remaining_processes()), seconds=grace)
    while remaining := remaining_processes():
        ending += remaining
        for each in remaining:
            _signal(each.pid, signal.SIGKILL)
        _wait(lambda: not remaining_processes(), seconds=1)
    left = max(1, end - time.monotonic())
    _wait(lambda: not any(_has_resources(each.pid) for each in ending), seconds=left)


def kill(folder: Path, component: str, *, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to the whole process group of the component, as a crash would.

    After SIGKILL it returns once they are gone.
    """
    ending = pids(folder, component)
    pid = leaders(folder).get(component)
    if pid is None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)
    if number == signal.SIGKILL:
        _wait(lambda: not any(map(_has_resources, ending)), seconds=10)


def exit_on_signals() -> None:
    """Turn signals into SystemExit, so that `finally` blocks run and end what was started.

    SIGINT too, which a shell ignores for its background jobs. SIGHUP stays ignored under nohup.
    """
    signal.signal(signal.SIGINT, _exit)
    signal.signal(signal.SIGTERM, _exit)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _exit)


def _exit(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def _wait(condition: Callable[[], bool], *, seconds: float) -> None:
    """Return once `condition()` is true, or after `seconds`."""
    end = time.monotonic() + seconds
    pause = 0.005
    while not condition() and time.monotonic() < end:
        time.sleep(pause)
        pause = min(pause * 2, 0.1)


def _has_resources(pid: int) -> bool:
    """Whether it may still have open files and sockets: a zombie has, as long as one of its threads runs."""
    _reap(pid)
    try:
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return False
    return state not in {"Z", "X"} or len(threads) > 1


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _environment(own: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in own.items()
        if not name.startswith(_FLAG_PREFIXES) and name.upper() not in _PROXIES
    }


def _marked() -> Iterator[tuple[int, dict[str, str]]]:
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            marks = _marks(int(name))
            if CLUSTER in marks and COMPONENT in marks:
                yield int(name), marks


def _marks(pid: int) -> dict[str, str]:
    """Our variables in the environment of this process; none for a zombie or another user's process."""
    raw = _environ(pid)
    if not raw:
        _reap(pid)
    if _MARK not in raw:
        return {}
    pairs = (item.decode(errors="replace").partition("=") for item in raw.split(b"\0"))
    return {name: value for name, _, value in pairs if name in (CLUSTER, COMPONENT)}


def _environ(pid: int) -> bytes:
    """Of each process on the machine, many times a second while something starts: so without a `Path`."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:  # noqa: PTH123
            return file.readall()
    except OSError:
        return b""


def _until_marked(pid: int) -> None:
    """Linux returns from a spawn a moment before the new environment can be read."""
    while pid in _children and not _marks(pid):
        time.sleep(0.001)


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def _reap(pid: int) -> None:
    if pid in _children:
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                return
        _children.discard(pid)
