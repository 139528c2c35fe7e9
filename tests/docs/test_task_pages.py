"""The task pages: each makes what it uses, by names of its own, and has its commands read by a test."""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain

from tests.support.docs.console import BLOCK, steps
from tests.support.docs.pages import DOCS
from tests.support.docs.task_pages import in_reading_order, names_that_it_makes, text_of_page
from tests.support.e2e.page_reader import comparable
from tests.support.paths import ROOT

#: Pages for operators that are followed as well.
OF_OPERATORS = ("docs/operating/gitops.md", "docs/operating/move-from-kueue.md")
#: One page deletes it again, and the others say what to do where it is there.
MADE_BY_TWO = {"volcano-system"}


def test_no_two_pages_make_a_queue_or_a_namespace_of_one_name() -> None:
    pages = ["README.md", *in_reading_order(), *OF_OPERATORS]
    made = Counter(chain.from_iterable(set(names_that_it_makes(page)) for page in pages))
    assert {name for name, pages in made.items() if pages > 1} - MADE_BY_TWO == set()


def test_a_page_uses_the_namespaces_that_it_makes_and_no_others() -> None:
    for page in in_reading_order():
        used = {
            name
            for step in steps(text_of_page(page))
            for name in re.findall(r"(?:--namespace|-n)[ =]([\w-]+)", step.command)
        }
        assert used - set(names_that_it_makes(page)) == set(), page


def test_each_page_with_commands_is_in_the_table_of_contents() -> None:
    found = {
        page.relative_to(ROOT).as_posix()
        for page in (DOCS / "tasks").glob("*.md")
        if BLOCK.search(page.read_text())
    }
    assert found == set(in_reading_order())


def test_commands_on_a_page_show_what_they_print() -> None:
    """A block with commands and no output is one that nobody has tried. What writes a file prints nothing."""
    silent = re.compile(r"cat > |until |kubectl queue windows .* > ")
    for page in in_reading_order():
        for step in steps(text_of_page(page)):
            assert step.output or silent.match(step.command), f"{page}: {step.command}"


def test_what_differs_from_run_to_run_is_the_same_to_the_reader() -> None:
    """A generated name may look like an age, and does so once in some hundred runs."""
    one = "evict   pod team/train-7494475b9d-7d42s   priority 0 (5s ago)\njob-x4d2h   at 2026-11-29T20:01:39Z"
    other = "evict pod team/train-668b7-bwhwr priority 0 (2m9s ago)\njob-bcdfg at 2030-01-01T00:00:00Z"
    assert comparable(one) == comparable(other)
    assert comparable("evict pod team/train-7494475b9d-bwhwr") != comparable("evict pod team/web")
