"""What the pages of change windows show is what the server takes."""

from __future__ import annotations

import re
from typing import Any

import pytest

from queues.admission.field_validation import field_refusal
from queues.admission.window_edits import window_refusal
from queues.windows.reader import OVERRIDE_FIELDS, SPAN_FIELDS, WINDOW_FIELDS
from queues.windows.schedule import LENGTH
from queues.windows.window import EXCEPTS, OVERRIDES, WINDOWS
from tests.queues.windows.cases import utc
from tests.support import yaml_texts
from tests.support.docs.pages import read, section_of, text_of

PAGES = ("tasks/stop-by-the-calendar.md", "tasks/see-and-move-windows.md")
NIGHTLY = {
    "name": "nightly",
    "schedule": "0 2 * * SUN",
    "duration": "2h",
    "timeZone": "Europe/Berlin",
    "stopPolicy": "Hold",
}


def examples() -> list[dict[str, Any]]:
    """The specs of the examples."""
    texts = [each for page in PAGES for each in re.findall(r"```yaml\n(.*?)```", text_of(page), re.DOTALL)]
    found = [yaml_texts.load(text) for text in texts]
    return [each.get("spec", each) for each in found]


@pytest.mark.parametrize("spec", examples())
def test_each_example_is_taken(spec: dict[str, Any]) -> None:
    whole = {"windows": [NIGHTLY], **spec}
    assert field_refusal({}, whole) is None
    assert window_refusal({}, whole, now=utc(2026, 9, 1)) is None


def test_the_reference_has_each_field_and_each_limit() -> None:
    section = section_of(text_of("reference/queue.md"), "Change windows")
    fields, _, limits = read(section)
    told = {name for row in fields for name in row[0].replace("`", "").split(", ")}
    assert told == set(WINDOW_FIELDS)
    assert {*SPAN_FIELDS, *OVERRIDE_FIELDS} <= set(re.findall(r"\w+", section))
    numbers = [row[1] for row in limits if row[1].isdigit()]
    assert numbers == [str(each) for each in (WINDOWS, OVERRIDES, EXCEPTS, LENGTH)]
