"""What others wrote, made fit to be shown: one line, printable, of bounded length."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.text import (
    NAME_LIMIT,
    REASON_LIMIT,
    printable,
    quoted,
)
from tests.support.cases import each_case
from tests.support.rules.cases import (
    HOSTILE,
    MODEST,
    plain,
)


@each_case(
    ("text", "line"),
    [
        ("", ""),
        ("plain", "plain"),
        ("  two \t words\n", "two words"),
        ("a\x00b", "a b"),
        ("\x1b[31mred", "[31mred"),
        ("one\u2028two", "one two"),
        ("\u202egnp", "gnp"),
        ("caf\u00e9 \u65e5\u672c", "caf\u00e9 \u65e5\u672c"),
    ],
)
def test_a_text_is_shown_on_one_line(text: str, line: str) -> None:
    """What cannot be printed is a gap, gaps are single spaces, words stay."""
    assert printable(text) == line


@pytest.mark.parametrize(("length", "kept"), [(9, 9), (10, 10), (11, 9), (1000, 9)])
def test_a_long_text_is_cut_with_a_mark(length: int, kept: int) -> None:
    """The ellipsis counts, so that no more is shown than the limit."""
    assert printable("x" * length, limit=10) == "x" * kept + ("" if length == kept else "\u2026")


def test_a_reason_is_cut_at_its_limit() -> None:
    """Without a limit given, that of reasons holds."""
    assert len(printable("x" * 1000)) == REASON_LIMIT


@MODEST
@given(st.text(max_size=400) | st.text(alphabet="\n\x00 \u202e\ud800x", max_size=400), st.integers(1, 200))
def test_any_text_is_shown_on_one_printable_line_of_the_limit(text: str, limit: int) -> None:
    """Whatever the characters: one printable line, no longer than asked, the same when shown again."""
    line = printable(text, limit=limit)
    assert plain(line)
    assert len(line) <= limit
    assert printable(line, limit=limit) == line


def test_the_limits_are_those_of_names_and_of_what_is_read() -> None:
    """A name has at most 253 characters, and a reason is cut at 160."""
    assert (NAME_LIMIT, REASON_LIMIT) == (253, 160)


@pytest.mark.parametrize("length", [1, 253])
def test_a_name_is_quoted_whole(length: int) -> None:
    """A name that an object can bear stands in quotes as it is."""
    assert quoted("q" * length) == '"' + "q" * length + '"'


@each_case("name", HOSTILE.values(), ids=HOSTILE)
def test_a_name_that_no_object_can_have_is_shown_on_one_line(name: str) -> None:
    """Whatever stands where a name should: one plain line in quotes, no longer than a name."""
    assert plain(quoted(name))
    assert len(quoted(name)) <= 255
    assert (quoted(name)[0], quoted(name)[-1]) == ('"', '"')
