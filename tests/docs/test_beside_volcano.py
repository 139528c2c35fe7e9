"""The page on Volcano's own parts says what the code does."""

from __future__ import annotations

import re

import pytest

from cluster.informers.crd_fields import REMEDY, REQUIRED
from cluster.metrics import Metrics
from controller.status.status_conflicts import (
    LOG_AGAIN_SECONDS,
    QUIET_SECONDS,
    REWRITE,
    WITHOUT_QUEUE_CONTROLLER,
)
from queues.admission import ignored_words, resource_validation
from queues.admission.dropped_fields import SentQueue, dropped_fields
from tests.support.docs.pages import read, tables_of, words_of
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "operating" / "beside-volcano.md").read_text()
MOVE = (ROOT / "docs" / "operating" / "move-from-volcano.md").read_text()


def test_the_version_of_vcctl_is_the_one_that_is_pinned() -> None:
    """The one that the tests run."""
    pinned = re.search(r"volcano\.sh/volcano (\S+)", (ROOT / "localcluster" / "vcctl" / "go.mod").read_text())
    assert pinned is not None
    assert f"`vcctl` {pinned[1]} " in words_of(PAGE)


def test_the_version_of_the_go_client_is_the_one_that_is_pinned() -> None:
    """The one that the tests run; and the warning is the one that it gets."""
    pinned = re.search(
        r"volcano\.sh/apis (\S+)", (ROOT / "localcluster" / "volcanoclient" / "go.mod").read_text()
    )
    assert pinned is not None
    assert f"`volcano.sh/apis` {pinned[1]} " in words_of(PAGE)
    stored = SentQueue(spec={"state": "Suspended", "reason": "x", "windows": [{}]}, status={"conditions": []})
    sent = SentQueue(spec={"weight": 2}, status={"reservation": {}})
    found = dropped_fields("research", stored, sent, manager="", owned=lambda: ())
    assert found.warnings[0].replace('"', "") in words_of(PAGE).replace('"', "")


def test_the_definitions_that_are_watched_are_listed_with_the_way_out() -> None:
    """Each of them, and the very command that the server advises."""
    assert set(re.findall(r"^- `(\S+)`$", PAGE, re.MULTILINE)) == REQUIRED.keys()
    assert f"\n{REMEDY.partition(': ')[2]}\n" in PAGE


@pytest.mark.parametrize("page", [PAGE, MOVE], ids=["beside", "move"])
def test_the_flag_without_the_queue_controller_is_the_one_that_the_event_advises(page: str) -> None:
    """A list of the others: what is left out of it is off, so that an exclusion alone leaves nothing on."""
    assert re.findall(r"^ *(--controllers=\S+)$", page, re.MULTILINE) == [WITHOUT_QUEUE_CONTROLLER]
    assert "-queue-controller" not in WITHOUT_QUEUE_CONTROLLER


def test_what_is_ignored_is_the_rules() -> None:
    """Word for word; `tests/webhooks/test_ignored_words.py` holds each row."""
    assert tables_of(PAGE, "What is ignored") == read(ignored_words.__doc__ or "")


def test_what_only_volcano_refuses_of_quotas_is_the_rules() -> None:
    """Word for word; `tests/queues/admission/test_resource_validation.py` holds each row."""
    assert tables_of(PAGE, "Quotas that Volcano refuses") == read(resource_validation.__doc__ or "")


def test_the_times_and_names_of_a_rivalry_are_the_codes() -> None:
    """Half a second, 30 seconds, two minutes, five minutes."""
    assert (REWRITE.first, REWRITE.longest, QUIET_SECONDS, LOG_AGAIN_SECONDS) == (0.5, 30.0, 120.0, 300.0)
    source = (ROOT / "controller" / "status" / "status_conflicts.py").read_text()
    for reason in re.findall(r'reason="(\w+)"', source):
        assert f"`{reason}`" in PAGE
    assert f"`{Metrics().undone._name}`" in PAGE
