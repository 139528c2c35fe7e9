"""The page of 2,000 queues: until the first frame stands, until changes are shown, and the plugin's memory.

A stand-in for the API server has the queues and says what changes, so that nothing else takes the processor.
The command, kubectl and Chromium are the real ones. As many on a real control plane:
`tests/browser/test_two_thousand_queues.py`.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import yaml
from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.figures import Line, RowResult, at_most
from benchmarks.memory import resident
from localcluster import build
from localcluster.build import Say
from localcluster.chromium import chromium

TEAMS, EACH = 40, 49
QUEUES = 1 + TEAMS * (1 + EACH)
#: How many queues change at a time.
CHANGES = (50, 500)
ROUNDS = 7
#: What the design asks for: seconds of the first frame, MiB. The gathering of changes comes on top.
FRAME, SHOWN, MEMORY = 1.0, 0.1, 150.0
GATHERED = 0.1
_PATH = "/apis/scheduling.volcano.sh/v1beta1/queues"
_ALL_THERE = f"() => document.querySelectorAll('#tree tbody tr').length === {QUEUES}"
#: Milliseconds from the navigation to the first paint with all rows, as the page's own clock has it.
_PAINTED = f"""() => {{
  if (!window.hasAll && ({_ALL_THERE})()) {{
    window.hasAll = true;
    requestAnimationFrame(() => {{ window.paintedAt = performance.now(); }});
  }}
  return window.paintedAt;
}}"""


class Seen(msgspec.Struct, frozen=True):
    """Seconds and MiB."""

    frame: float
    shown: dict[int, float]
    memory: float


class StandIn(ThreadingHTTPServer):
    """Lists the queues and streams what is put into `events`, which are those of the newest stream."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.events: queue.Queue[bytes] = queue.Queue()
        self.version = 1
        self.items = {item["metadata"]["name"]: item for item in _items()}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A command that has ended."""

    def change(self, count: int) -> int:
        """Let the pods of so many queues change; the number that each counts then."""
        self.version += 1
        names = [name for name in self.items if "-q-" in name][:count]
        for name in names:
            item = self.items[name]
            item["metadata"]["resourceVersion"] = str(self.version)
            item["status"]["pods"]["pending"] = self.version
            self.events.put(json.dumps({"type": "MODIFIED", "object": item}).encode() + b"\n")
        return self.version


def _items() -> Iterator[dict[str, Any]]:
    yield _item("root")
    for team in range(TEAMS):
        yield _item(f"team-{team}", "root")
        yield from (_item(f"team-{team}-q-{number}", f"team-{team}") for number in range(EACH))


def _item(name: str, parent: str = "") -> dict[str, Any]:
    metadata = {"name": name, "uid": name, "generation": 1, "resourceVersion": "1"}
    conditions = [
        {"type": kind, "status": "True", "observedGeneration": 1, "reason": "Open", "message": "x" * 60}
        for kind in ("Active", "Accepting")
    ]
    return {
        "metadata": {**metadata, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"state": "Open", "stopPolicy": "None", **({"parent": parent} if parent else {})},
        "status": {
            "state": "Open",
            "observedGeneration": 1,
            "pods": {"pending": 0, "running": 3},
            "conditions": conditions,
        },
    }


class _Handler(BaseHTTPRequestHandler):
    server: StandIn
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if "watch=true" in self.path:
            self._stream()
        elif self.path.startswith(_PATH):
            items = list(self.server.items.values())[: 1 if "limit=1&" in f"{self.path}&" else None]
            self._answer({"metadata": {"resourceVersion": str(self.server.version)}, "items": items})
        else:
            self._answer({"items": []})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer({"status": {"userInfo": {"username": "somebody"}}})

    def _answer(self, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        events = self.server.events = queue.Queue()
        while True:
            line = events.get()
            self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")

    def log_message(self, format: str, *args: object) -> None:
        pass


def measure(say: Say) -> RowResult:
    found = chromium(say=say)
    with sync_playwright() as playwright, _served() as server:
        browser = playwright.chromium.launch(
            executable_path=found.path,
            args=["--no-sandbox", "--disable-gpu"],
            env={**os.environ, **found.environ},
        )
        seen = []
        for _ in range(ROUNDS):
            seen.append(_round(browser, server, say=say))
            say(f"{seen[-1]}")
        browser.close()
    return RowResult(
        title=f"The page of {QUEUES:,} queues",
        about="`kubectl queue ui` in Debian's Chromium, without a graphics card. The first frame: from the "
        "navigation until all rows stand and the browser has painted, once the command has read the queues. "
        f"Changes: from the watch event until the row shows it, with the {GATHERED * 1000:.0f} ms in which "
        "changes are gathered. Memory: of the command's own process after all that.",
        lines=(
            _line("first frame", FRAME, "s", [each.frame for each in seen], f"{FRAME:.0f} s"),
            *(
                _line(
                    *(f"{count} queues change", SHOWN + GATHERED, "s", [each.shown[count] for each in seen]),
                    f"{SHOWN * 1000:.0f} ms and the time in which changes are gathered",
                    is_goal=count == CHANGES[0],
                )
                for count in CHANGES
            ),
            _line("memory", MEMORY, "MiB", [each.memory for each in seen], f"{MEMORY:.0f} MiB"),
        ),
    )


def _line(
    what: str, bound: float, unit: str, ours: list[float], beside: str, *, is_goal: bool = True
) -> Line:
    return Line(
        what=what,
        beside=beside,
        unit=unit,
        ours=tuple(ours),
        theirs=(bound,) * len(ours),
        goal=at_most(1.0) if is_goal else None,
    )


@contextmanager
def _served() -> Iterator[StandIn]:
    server = StandIn()
    thread = threading.Thread(target=server.serve_forever, name="stand-in", daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def _round(browser: Browser, server: StandIn, *, say: Say) -> Seen:
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [Path(sys.executable).with_name("kubectl-queue"), "ui", "--no-browser"],
            env={
                "PATH": f"{build.binary('kubectl', say=say).parent}:/usr/bin:/bin",
                "HOME": folder,
                "KUBECONFIG": str(_kubeconfig(Path(folder), server.server_address[1])),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            page = browser.new_context(viewport={"width": 1200, "height": 900}).new_page()
            page.goto(address)
            page.wait_for_function(_ALL_THERE)
            page.reload()  # the command has read the queues by now
            frame = page.wait_for_function(_PAINTED).json_value() / 1000
            shown = {count: _shown(page, server, count) for count in CHANGES}
            memory = resident([process.pid])
            page.context.close()
            return Seen(frame, shown, memory)
        finally:
            process.kill()
            process.communicate()


def _shown(page: Page, server: StandIn, count: int) -> float:
    """Until the last of them shows it: the frame has all that came together, or one after it."""
    name = [name for name in server.items if "-q-" in name][count - 1]
    cell = f"document.querySelector('#tree tbody tr[data-name=\"{name}\"]').children[3].textContent"
    began = time.perf_counter()
    number = server.change(count)
    page.wait_for_function(f"() => {cell} === '{number}'", polling="raf")
    return time.perf_counter() - began


def _kubeconfig(folder: Path, port: int) -> Path:
    path = folder / "config"
    content = {
        "clusters": [{"name": "none", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "none", "user": {}}],
        "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
        "current-context": "none",
    }
    path.write_text(yaml.safe_dump(content))
    return path
