"""The book as text: what is written is read, and nothing else is."""

from __future__ import annotations

import uuid
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.quota.book import MAX_INTENTS, MAX_LENGTH, BadBook, Book, encode, parse
from tests.support.cases import each_case

UID = "4a1b6f0e-1c2d-4e3f-8a9b-0c1d2e3f4a5b"
uids = st.uuids().map(str) | st.from_regex(r"[0-9A-Za-z._-]{1,60}", fullmatch=True)


@given(
    st.dictionaries(uids, st.integers(1, 2**62), max_size=20),
    st.integers(1, 2**40),
    st.none() | st.integers(0, 2**62),
)
def test_a_book_is_read_as_it_was_written(intents: dict[str, int], term: int, since: int | None) -> None:
    book = Book(term=term, intents=intents, is_new=since is not None, since=since or 0)
    assert parse(encode(book)) == book


def test_an_intent_takes_few_bytes() -> None:
    intents = {str(uuid.uuid4()): 10**9 for _ in range(MAX_INTENTS)}
    assert len(encode(Book(term=1, intents=intents))) <= 40 * MAX_INTENTS


@each_case(
    "text",
    [
        "",
        "2 1",
        "1",
        "1 0",
        "1 -1",
        "1 1 old",
        "1  new",
        "1 1 new ",
        "1 1 new 0",
        "1 1 new x",
        "1 1 new 7 8",
        "1 new 1",
        "1 x",
        f"1 {10**15}",
        "1 1\n",
        f"1 1\n={UID}",
        f"1 1\n={UID} 0",
        f"1 1\n={UID} 7 8",
        f"1 1\n={UID} 7\n={UID} 8",
        "1 1\nShort 7",
        "1 1\n!!!! 7",
        "1 1\n\u0660 7",
        "1 1\n=a 7\r",
        "1 1\n" + "\n".join(f"=a{number} 7" for number in range(MAX_INTENTS + 1)),
        "1 1\n" + "=a 7" * MAX_LENGTH,
    ],
)
def test_what_is_no_book_is_refused(text: str) -> None:
    for whole in (text, f"{text}\n{zlib.crc32(text.encode()):08x}"):
        with pytest.raises(BadBook):
            parse(whole)


def test_a_book_of_which_a_line_was_removed_or_changed_is_refused() -> None:
    lines = encode(Book(term=7, intents={"a": 1, "b": 2})).split("\n")
    for number in range(len(lines)):
        for other in ([], ["=c 3"], [lines[number].replace("2", "3").replace("7", "8") + " "]):
            with pytest.raises(BadBook):
                parse("\n".join([*lines[:number], *other, *lines[number + 1 :]]))


@given(st.text(max_size=60))
def test_any_text_is_a_book_or_refused(text: str) -> None:
    try:
        book = parse(text)
    except BadBook:
        return
    assert parse(encode(book)) == book
