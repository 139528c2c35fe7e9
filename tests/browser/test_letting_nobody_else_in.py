"""No other page, name, program or user gets what the page shows, as Chromium really behaves."""

from __future__ import annotations

import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import expect

from localcluster.cluster import LocalCluster
from tests.support.e2e.wait import until
from tests.support.ui.windows import Ui, Window

POST = "method: 'POST', body: '{}'"
#: What a page of another site can try, with the token even.
TRIED = {
    "reads": "fetch(`${origin}/api/viewer`, {headers: {Authorization: `Bearer ${token}`}})",
    "reads without being asked": "fetch(`${origin}/api/viewer`, {mode: 'no-cors'})",
    "writes": "fetch(`${origin}/api/session`, {" + POST + "})",
    "writes without being asked": "fetch(`${origin}/api/session`, {mode: 'no-cors', " + POST + "})",
}


TRY = """async ([origin, token]) => {
  try {
    const answer = await %s;
    return `${answer.type} ${answer.status} ${await answer.text()}`;
  } catch (error) {
    return "failed";
  }
}"""
FRAME = """address => new Promise(done => {
  const frame = document.createElement("iframe");
  frame.src = address;
  frame.onload = done;
  document.body.append(frame);
})"""
#: What a script that got in would try.
HARM = (
    "document.body.innerHTML = '<img src=x onerror=\"window.hit = 1\">'",
    "const made = document.createElement('script'); made.textContent = 'window.hit = 1'; "
    "document.body.append(made)",
    "const made = document.createElement('a'); made.setAttribute('onclick', 'window.hit = 1'); "
    "document.body.append(made); made.click()",
    "setTimeout('window.hit = 1', 0)",
    "const made = document.createElement('img'); made.onload = () => { window.hit = 1 }; "
    "made.src = 'data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA='; document.body.append(made)",
)


class Evil(BaseHTTPRequestHandler):
    """A page of another site."""

    def do_GET(self) -> None:
        body = b"<!doctype html><title>evil</title><h1>evil</h1>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def evil() -> Iterator[str]:
    """Its address: another port of this machine, which cookies would not tell from ours."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Evil)
    thread = threading.Thread(target=server.serve_forever, name="evil")
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def command_lines() -> Iterator[bytes]:
    """Of all programs that run."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield path.read_bytes()


def token_of(window: Window) -> str:
    token: str = window.page.evaluate("sessionStorage.getItem('token')")
    assert len(token) == 43
    return token


@pytest.mark.parametrize("attempt", TRIED)
def test_a_page_of_another_site_reads_and_changes_nothing_though_it_had_the_token(
    ui: Ui, evil: str, attempt: str
) -> None:
    window = ui.window()
    other = window.page.context.new_page()
    other.goto(evil)
    outcome = other.evaluate(TRY % TRIED[attempt], [ui.origin, token_of(window)])
    assert outcome in {"failed", "opaque 0 "}


def test_a_page_of_another_site_cannot_frame_it(ui: Ui, evil: str) -> None:
    other = ui.window().page.context.new_page()
    other.goto(evil)
    other.evaluate(FRAME, ui.origin)
    [frame] = [each for each in other.frames if each.parent_frame]
    assert frame.url == "chrome-error://chromewebdata/"


def test_another_name_for_this_machine_shows_nothing(ui: Ui) -> None:
    """As after DNS rebinding: the browser connects to us by a name that somebody else owns."""
    window = ui.window()
    answer = window.page.context.new_page().goto(ui.origin.replace("127.0.0.1", "localhost"))
    assert answer is not None
    assert answer.status == 421


def test_the_key_is_in_no_cookie_no_address_and_nothing_that_outlives_the_window(ui: Ui) -> None:
    window = ui.window()
    token = token_of(window)
    assert window.page.context.cookies() == []
    assert window.page.evaluate("localStorage.length") == 0
    assert "#" not in window.page.url
    again = window.page.context.new_page()
    again.goto(ui.origin)
    expect(again.get_by_role("heading", name="This window is not let in")).to_be_visible()
    assert token not in again.content()


@pytest.mark.parametrize("attempt", HARM)
def test_a_text_that_got_into_the_page_cannot_become_a_script_or_ask_for_a_picture(
    window: Window, attempt: str
) -> None:
    """Trusted Types and the policy, though our own script never tries."""
    window.page.evaluate(
        f"() => {{ try {{ {attempt} }} catch (error) {{ window.refused = String(error) }} }}"
    )
    window.page.wait_for_function("() => new Promise(done => setTimeout(() => done(true), 100))")
    assert window.page.evaluate("window.hit") is None
    assert window.said


def test_it_listens_on_the_loopback_alone(ui: Ui) -> None:
    port = f"{int(ui.origin.rpartition(':')[2]):04X}"
    lines = [
        line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()
    ]
    listening = [line[1] for line in lines if line[3] == "0A" and line[1].endswith(f":{port}")]
    assert listening == [f"0100007F:{port}"]


def test_the_browser_is_started_with_a_file_that_only_its_user_may_read_and_that_goes(
    cluster: LocalCluster, started: Callable[..., Ui], tmp_path: Path
) -> None:
    """The code is in no argument of a program: everybody on the machine sees those."""
    opener = tmp_path / "browser"
    opener.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/opened\n')
    opener.chmod(0o755)
    ui = started(browser=True, environ={"DISPLAY": ":0", "BROWSER": str(opener)})
    code = ui.address.partition("#")[2]
    opened = until(
        lambda: (tmp_path / "opened").exists() and (tmp_path / "opened").read_text(), "the browser"
    )
    page = Path(opened.strip().removeprefix("file://"))
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
    assert ui.address in page.read_text()
    assert not [each for each in command_lines() if code.encode() in each]
    ui.window()
    assert not page.exists()
    assert ui.interrupt() == 130
    assert not page.parent.exists()
