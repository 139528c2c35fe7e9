"""`tests/support/cases.py`: cases that one test tries fail as loudly as cases that are tests of their own."""

from __future__ import annotations

import inspect

import pytest

from tests.support.cases import each_case, with_new


def tried(*failing: int) -> list[str]:
    """The names of the cases that are said to fail, of four of which these do."""

    @each_case("number", range(4), ids=lambda number: f"number {number}")
    def test(number: int) -> None:
        assert number not in failing

    try:
        test()
    except ExceptionGroup as group:
        return [note for each in group.exceptions for note in each.__notes__]
    return []


def test_each_case_that_fails_is_named() -> None:
    assert tried() == []
    assert tried(2) == ["case: number 2"]
    assert tried(0, 3) == ["case: number 0", "case: number 3"]


def test_a_case_that_raises_nothing_where_it_should_is_named_too() -> None:
    @each_case("number", range(3))
    def test(number: int) -> None:
        with pytest.raises(ZeroDivisionError):
            assert 1 // number

    with pytest.raises(BaseExceptionGroup, match="2 of 3 cases fail") as caught:
        test()
    assert [each.__notes__ for each in caught.value.exceptions] == [["case: 1"], ["case: 2"]]


def test_every_two_cases_are_tried_together() -> None:
    seen = []

    @each_case("one", "ab")
    @each_case(("other", "third"), [(1, 2), pytest.param(3, 4, id="named")])
    def test(one: str, other: int, third: int) -> None:
        seen.append((one, other, third))

    test()
    assert seen == [("a", 1, 2), ("a", 3, 4), ("b", 1, 2), ("b", 3, 4)]
    assert not inspect.signature(test).parameters


def test_a_test_without_cases_or_with_marks_on_one_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="no case"):
        each_case("number", [])
    with pytest.raises(AssertionError, match="marks"):
        each_case("number", [pytest.param(1, marks=pytest.mark.slow)])
    with pytest.raises(AssertionError, match="not all"):
        each_case("number", [1])(lambda: None)


def test_what_is_made_for_a_case_is_made_anew() -> None:
    lengths = []

    @each_case("number", range(3))
    @with_new(seen=list)
    def test(number: int, seen: list[int]) -> None:
        seen.append(number)
        lengths.append(len(seen))

    test()
    assert lengths == [1, 1, 1]
    with pytest.raises(AssertionError, match="not all"):
        with_new(other=list)(lambda: None)
