"""The processes of a cluster: started, found again, and ended.

Invariants
- A process says itself which cluster and component it belongs to, by two variables of its
  environment. So no process is ever lost (whoever started it may have been killed before it
  could write anything down), and a process number that now belongs to a stranger is never
  mistaken for ours.
- Each component leads a session, and so a process group, of its own.
- Nothing is signalled but what was found this way a moment before.
- One that ends loses its environment before its sockets. So whoever ends a process waits until it
  holds nothing any more: the next one may want the same port.

Linux only: it reads /proc.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CLUSTER = "SLUICE_LOCAL_CLUSTER"
COMPONENT = "SLUICE_LOCAL_COMPONENT"
#: Prefixes that etcd and kwok would read as flags.
_FOREIGN = ("ETCD_", "KWOK_")
#: Signals that a shell may have told us to ignore; a component starts with the defaults.
_DEFAULTS = (signal.SIGPIPE, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)


#: What this very process started and has to reap; only such a zombie is ever waited for.
_children: set[int] = set()


@dataclass(frozen=True)
class Process:
    """A living process of a cluster: the component itself, which leads its session, or a child of it."""

    pid: int
    component: str
    session: int

    @property
    def leader(self) -> bool:
        return self.pid == self.session


def spawn(command: Sequence[str], *, folder: Path, component: str, log: Path) -> int:
    """Start the component, leading its own session, its output appended to `log`; return its pid."""
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
        setsigdef=_DEFAULTS,
    )
    _children.add(pid)
    _until_marked(pid)
    return pid


def find(folder: Path) -> tuple[Process, ...]:
    """Every living process of the cluster in `folder`, whoever started it."""
    return tuple(
        Process(pid, marks[COMPONENT], session=_session(pid))
        for pid, marks in _marked()
        if marks[CLUSTER] == str(folder)
    )


def clusters() -> frozenset[Path]:
    """The folder of every cluster on this machine that has a living process."""
    return frozenset(Path(marks[CLUSTER]) for _, marks in _marked())


def leaders(folder: Path) -> dict[str, int]:
    """The pid of each component that lives."""
    return {each.component: each.pid for each in find(folder) if each.leader}


def pids(folder: Path, component: str) -> list[int]:
    """The component's, and those of its children."""
    return [each.pid for each in find(folder) if each.component == component]


def stop(
    folder: Path,
    *,
    components: Iterable[str] | None = None,
    keep: Iterable[int] = (),
    grace: float = 10,
) -> None:
    """End these components (default: all) with their children; returns once they are gone.

    SIGTERM to the leaders; SIGKILL to what is left once they are gone, or after `grace` seconds.
    The sessions in `keep` are left alone.
    """
    wanted = None if components is None else frozenset(components)
    spared = frozenset(keep)

    def theirs() -> list[Process]:
        return [
            each
            for each in find(folder)
            if (wanted is None or each.component in wanted) and each.session not in spared
        ]

    ending = theirs()
    for each in ending:
        if each.leader:
            _signal(each.pid, signal.SIGTERM)
            _signal(-each.pid, signal.SIGCONT)  # the whole group: one that was stopped could not hear
    end = time.monotonic() + grace
    _wait(lambda: not any(each.leader for each in theirs()), seconds=grace)
    while remaining := theirs():
        ending += remaining
        for each in remaining:
            _signal(each.pid, signal.SIGKILL)
        _wait(lambda: not theirs(), seconds=1)
    _wait(lambda: not any(_holds(each.pid) for each in ending), seconds=max(1, end - time.monotonic()))


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
        _wait(lambda: not any(map(_holds, ending)), seconds=10)


def _wait(holds: Callable[[], bool], *, seconds: float) -> None:
    """Return once `holds()`, or after `seconds`."""
    end = time.monotonic() + seconds
    pause = 0.005
    while not holds() and time.monotonic() < end:
        time.sleep(pause)
        pause = min(pause * 2, 0.1)


def _holds(pid: int) -> bool:
    """Whether it may still hold files and sockets: a zombie does as long as one of its threads lives."""
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


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in ours.items() if not name.startswith(_FOREIGN)}


def _marked() -> Iterator[tuple[int, dict[str, str]]]:
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            marks = _marks(int(entry.name))
            if CLUSTER in marks and COMPONENT in marks:
                yield int(entry.name), marks


def _marks(pid: int) -> dict[str, str]:
    """Our variables in the environment of this process; none for a zombie or someone else's."""
    raw = _environ(pid)
    if not raw:
        _reap(pid)
    if f"{CLUSTER}=".encode() not in raw:
        return {}
    pairs = (item.decode(errors="replace").partition("=") for item in raw.split(b"\0"))
    return {name: value for name, _, value in pairs if name in (CLUSTER, COMPONENT)}


def _environ(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
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
