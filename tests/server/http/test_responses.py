"""What the app answers is what its own caller is sent, or a failure of the app."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from server.http.request_parser import HttpRequest, RequestError
from server.http.responses import build_environ, call_app


@pytest.mark.parametrize(
    ("name", "value"),
    [("X-A", "a\r\nX-B: b"), ("X-A\n", "a"), ("X-A", "a\0"), ("X-A", "\N{EURO SIGN}")],
    ids=["a line break", "a line break in a name", "NUL", "not Latin-1"],
)
def test_a_header_that_cannot_be_sent_is_a_failure_of_the_app(name: str, value: str) -> None:
    def app(_: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
        start("200 OK", [("X-Good", "caf\xe9\tau lait"), (name, value)])
        return []

    with pytest.raises(ValueError, match="holds a character"):
        call_app(app, {})


def test_the_first_of_two_starts_is_not_forgotten() -> None:
    """PEP 3333: only an error may start a response anew."""

    def app(_: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
        start("200 OK", [])
        start("500 Internal Server Error", [])
        return []

    with pytest.raises(ValueError, match="twice"):
        call_app(app, {})


@pytest.mark.parametrize("target", [b"http://[", b"ftp://host/", b"*"])
def test_a_target_that_is_no_path_is_refused(target: bytes) -> None:
    with pytest.raises(RequestError, match="is a path"):
        build_environ(HttpRequest(target=target), base={})
