"""What the page refuses: other pages, other names, no token, too large bodies, too many windows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kubectl_queue.ui import app, guard
from tests.support.cases import each_case
from tests.support.plugin.harness import item
from tests.support.ui.pages import ORIGIN, PORT, PageOnValues

#: Each path that has data, with its method.
WITH_DATA = (
    *(("GET", f"/api/{path}") for path in ("viewer", "stream", "windows")),
    *(("GET", f"/api/queues/root{path}") for path in ("", "/waiting", "/rights", "/progress")),
    *(("POST", f"/api/queues/root/{path}") for path in ("preview", "pods", "edits")),
)


@pytest.fixture
def page() -> PageOnValues:
    return PageOnValues(item("root"))


@pytest.mark.parametrize(
    "host", ["localhost:8765", "127.0.0.1", "127.0.0.1:8766", "evil.example.com:8765", "127.0.0.1:8765.", ""]
)
@pytest.mark.parametrize("path", ["/", "/static/page.js", "/api/viewer"])
def test_another_name_for_this_machine_is_refused_whatever_it_asks(
    page: PageOnValues, host: str, path: str
) -> None:
    """DNS rebinding leads a page of another origin to our port, under its own name."""
    headers = {"Host": host or "127.0.0.1:1"}
    assert page.ask("GET", path, **headers).status_code == 421


@pytest.mark.parametrize(
    "origin", ["http://evil.example.com", "null", "http://127.0.0.1:8766", "https://127.0.0.1:8765"]
)
@pytest.mark.parametrize(("method", "path"), WITH_DATA)
def test_another_origin_is_refused_though_it_had_the_token(
    page: PageOnValues, origin: str, method: str, path: str
) -> None:
    assert page.ask(method, path, Origin=origin).status_code == 403


@pytest.mark.parametrize("origin", ["http://evil.example.com", "null", ""])
def test_a_change_has_to_say_its_origin(page: PageOnValues, origin: str) -> None:
    code = page.keys.code
    assert page.enter(code, Origin=origin).status_code == 403
    assert page.keys.code == code, "the code was not used"


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer x", "Basic eDp5", "bearer {}"])
@pytest.mark.parametrize(("method", "path"), WITH_DATA)
def test_without_the_token_nothing_is_said_and_nobody_is_asked(
    page: PageOnValues, authorization: str, method: str, path: str
) -> None:
    answer = page.ask(method, path, token="", Authorization=authorization)
    assert (answer.status_code, page.connected) == (401, 0)
    assert "open the address" in answer.get_json()["error"]


def test_a_code_works_once(page: PageOnValues) -> None:
    code = page.keys.code
    assert page.enter(code).status_code == 200
    assert page.enter(code).status_code == 401
    assert page.keys.code != code


def test_a_thousand_requests_without_a_token_reach_nobody(page: PageOnValues) -> None:
    statuses = {page.ask("GET", "/api/viewer", token="").status_code for _ in range(1000)}
    assert (statuses, page.connected) == ({401}, 0)


def test_the_stream_is_a_websocket_and_says_so(page: PageOnValues) -> None:
    """A script is not told why its WebSocket was refused, so it asks once more: 401 and 503 come first."""
    assert page.ask("GET", "/api/stream").status_code == 400
    assert page.ask("GET", "/api/stream", token="of-another-command").status_code == 401


@each_case(
    ("protocol", "origin", "status"),
    [
        ("lines, {token}", "https://evil.example", 403),
        ("lines, {token}", "", 403),
        ("lines, wrong", ORIGIN, 401),
        ("{token}", ORIGIN, 401),
        ("", ORIGIN, 401),
    ],
)
def test_no_other_page_opens_the_stream(protocol: str, origin: str, status: int) -> None:
    """Browsers let pages of other sites open WebSockets unasked, and always say whose page it is."""
    page = PageOnValues()
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec_WebSocket_Version": "13",
        "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec_WebSocket_Protocol": protocol.format(token=page.token),
        "Origin": origin,
    }
    assert page.ask("GET", "/api/stream", token="", **headers).status_code == status


@pytest.mark.parametrize("size", [guard.LARGEST_BODY + 1, 10_000_000])
def test_a_huge_body_is_refused(page: PageOnValues, size: int) -> None:
    assert page.ask("POST", "/api/session", b'"' + b"x" * size).status_code == 413


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"code": 7}', b"\xff\xfe", b'{"code": null}'])
def test_a_body_that_makes_no_sense_is_refused_in_words(page: PageOnValues, body: bytes) -> None:
    answer = page.ask("POST", "/api/session", body)
    assert answer.status_code == 400
    assert answer.get_json()["error"]


@pytest.mark.parametrize(
    "path", ["/", "/windows", "/queues/x", "/static/page.css", "/api/viewer", "/no/such"]
)
@pytest.mark.parametrize("token", [None, ""])
def test_each_answer_keeps_other_pages_out(page: PageOnValues, path: str, token: str | None) -> None:
    """Also those that refuse."""
    answer = page.ask("GET", path, token=token)
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';")
    assert "frame-ancestors 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert "Set-Cookie" not in answer.headers


def test_who_asks_before_a_request_of_another_origin_gets_no_leave(page: PageOnValues) -> None:
    answer = page.ask("OPTIONS", "/api/viewer", Origin="http://evil.example.com", token="")
    assert answer.status_code == 403
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_the_page_itself_has_no_data_and_no_script_of_others(page: PageOnValues) -> None:
    for path in ("/", "/queues/root", "/windows"):
        text = page.ask("GET", path, token="").get_data(as_text=True)
        assert "root" not in text
        assert text.count("<script") == 1
        assert 'src="/static/page.js"' in text
        assert "style=" not in text


def test_all_scripts_are_asked_for_at_once(page: PageOnValues) -> None:
    """Each that the page imports, directly or not."""
    text = page.ask("GET", "/", token="").get_data(as_text=True)
    scripts = {path.name for path in (Path(app.__file__).parent / "static").glob("*.js")}
    assert set(re.findall(r'"/static/(\w+\.js)"', text)) == scripts


def test_what_goes_wrong_is_said_without_a_trace(page: PageOnValues, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "read_viewer", lambda *_: 1 / 0)
    answer = page.ask("GET", "/api/viewer")
    assert answer.status_code == 500
    assert json.loads(answer.data) == {
        "error": "ZeroDivisionError('division by zero'); this is a mistake in kubectl queue, please report it"
    }


def test_the_rules_are_those_of_the_port(page: PageOnValues) -> None:
    host = f"127.0.0.1:{PORT}"
    assert guard.refusal(method="POST", host=host, origin=ORIGIN, port=PORT) is None
    assert guard.refusal(method="POST", host=host, origin=ORIGIN, port=PORT + 1) is not None
