"""The worker as the system sees it."""

from __future__ import annotations

from pathlib import Path

from tests.support.http.served_worker import Served


def worker_of(server: Served) -> int:
    """The process that serves, whose parent we started."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    return int(children.read_text().split()[0])


def spent(pid: int) -> float:
    """Seconds of CPU time of its loop's thread."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


def memory(pid: int, *, most: bool = True) -> int:
    """Bytes: what it took at most, or takes now."""
    name = "VmHWM" if most else "VmRSS"
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def forget_most(pid: int) -> int:
    """What it took at most is from now on; what it takes now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return memory(pid, most=False)
