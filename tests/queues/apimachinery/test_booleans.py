"""Booleans as Go reads them."""

from __future__ import annotations

from queues.apimachinery.booleans import parse_bool
from tests.support.cases import each_case


@each_case(
    ("text", "value"),
    [
        *((text, True) for text in ("1", "t", "T", "true", "True", "TRUE")),
        *((text, False) for text in ("0", "f", "F", "false", "False", "FALSE")),
        *((text, None) for text in ("", " true", "tRUE", "yes", "on", "2", "null")),
    ],
)
def test_the_texts_that_are_booleans(text: str, value: bool | None) -> None:
    assert parse_bool(text) is value
