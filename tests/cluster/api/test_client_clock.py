"""The API server's time, as the client tells it from the last answer."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from kubernetes.client import Configuration

from cluster.api.client import Client

DATE = "Mon, 23 Nov 2026 09:00:00 GMT"
SERVER_TIME = datetime(2026, 11, 23, 9, tzinfo=UTC).timestamp()


def test_a_jump_of_our_clock_does_not_change_the_api_servers_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even until its next answer: seconds are counted by the monotonic clock."""
    now = {"monotonic": 50.0, "ours": SERVER_TIME - 600.0}
    monkeypatch.setattr(time, "monotonic", lambda: now["monotonic"])
    monkeypatch.setattr(time, "time", lambda: now["ours"])
    client = Client(Configuration(host="https://127.0.0.1"))
    assert client.clock_skew == 0.0
    client._update_clock(DATE)
    assert client.clock_skew == 600.0
    now = {"monotonic": 53.0, "ours": SERVER_TIME + 3600.0}
    assert now["ours"] + client.clock_skew == SERVER_TIME + 3.0
    client._update_clock("no date")
    assert now["ours"] + client.clock_skew == SERVER_TIME + 3.0
