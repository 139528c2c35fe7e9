"""Pages of bounded length: all objects are read, whatever their sizes, and never more at once than that."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cluster.exceptions import TooLong
from cluster.paging import Paging, Query
from tests.queues.cases import MODEST

MOST = 1000
LIMIT = 50


class Listed:
    """A list of objects of these sizes; a page's token is the number of its first object."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        self.asked: list[int] = []
        self.longest = 0

    def fetch(self, query: Query, most: int | None) -> bytes:
        first, limit = int(query.get("continue", 0)), int(query["limit"])
        self.asked.append(limit)
        size = sum(self.sizes[first : first + limit])
        if most is not None and size > most:
            raise TooLong("it is")
        self.longest = max(self.longest, size)
        return b"x" * size

    def read_all(self) -> None:
        paging, first = Paging(self.fetch, most=MOST), 0
        while first < len(self.sizes):
            page = paging.read({"continue": first} if first else {}, limit=LIMIT)
            assert len(page) == sum(self.sizes[first : first + self.asked[-1]])
            first += self.asked[-1]


def test_short_pages_are_as_long_as_they_may_be() -> None:
    listed = Listed([10] * 200)
    listed.read_all()
    assert listed.asked == [LIMIT] * 4


def test_a_page_that_is_too_long_is_asked_for_again_with_fewer() -> None:
    listed = Listed([100] * 12)
    listed.read_all()
    assert listed.asked == [50, 12, 3, 3, 3, 3]


def test_an_object_that_is_longer_than_a_page_is_read_by_itself() -> None:
    listed = Listed([5000] * 3)
    listed.read_all()
    assert listed.asked == [50, 12, 3, 1, 1, 1]


def test_after_short_pages_they_grow_again() -> None:
    listed = Listed([900] * 4 + [1] * 400)
    listed.read_all()
    assert listed.asked[-3:] == [LIMIT] * 3


@MODEST
@given(st.lists(st.sampled_from([1, 10, 300, 999, 1001, 5000]), max_size=120))
def test_all_is_read_and_no_more_at_once_than_a_page_or_an_object(sizes: list[int]) -> None:
    listed = Listed(sizes)
    listed.read_all()
    assert listed.longest <= max([MOST, *sizes])
    assert len(listed.asked) <= 3 * len(sizes) + 3
