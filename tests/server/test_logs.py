"""Logs are JSON lines: whatever is logged is one line, and that line is JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from server.logs import configure
from tests.support.rules.cases import HOSTILE

log = logging.getLogger("tests.logs")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root, level = list(logging.root.handlers), logging.root.level
    yield
    logging.root.handlers[:] = root
    logging.root.setLevel(level)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    said = capsys.readouterr()
    assert said.out == ""
    return [json.loads(line) for line in said.err.split("\n") if line]


def test_a_line_has_time_level_logger_and_message(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info")
    log.warning("queue %s has %d pods", "research", 5)
    [line] = lines(capsys)
    assert line["level"] == "warning"
    assert line["logger"] == "tests.logs"
    assert line["thread"] == "MainThread"
    assert line["message"] == "queue research has 5 pods"
    assert datetime.fromisoformat(line["time"]).utcoffset() is not None


@pytest.mark.parametrize("name", HOSTILE)
def test_every_message_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure("info")
    log.info("reason: %s", HOSTILE[name])
    [line] = lines(capsys)
    assert line["message"].startswith("reason: ")


def test_a_traceback_is_in_the_line_and_not_after_it(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info")
    try:
        int("bad\nworse")
    except ValueError:
        log.exception("failed")
    [line] = lines(capsys)
    assert line["level"] == "error"
    assert line["error"].endswith("ValueError: invalid literal for int() with base 10: 'bad\\nworse'")
    assert "Traceback" in line["error"]


def test_extras_are_in_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info")
    log.info("done", extra={"queue": "research"})
    [line] = lines(capsys)
    assert line["queue"] == "research"


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_the_level_is_the_one_set(level: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure(level)
    for each in ("debug", "info", "warning", "error"):
        getattr(log, each)("x")
    said = [line["level"] for line in lines(capsys)]
    order = ["debug", "info", "warning", "error"]
    assert said == order[order.index(level) :]


def test_the_http_client_does_not_chatter(capsys: pytest.CaptureFixture[str]) -> None:
    configure("debug")
    logging.getLogger("urllib3.connectionpool").warning("Connection pool is full")
    assert lines(capsys) == []


def test_configuring_twice_says_nothing_twice(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info")
    configure("info")
    log.info("once")
    assert len(lines(capsys)) == 1
