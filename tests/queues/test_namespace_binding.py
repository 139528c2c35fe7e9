"""The rules of `queues.namespace_binding`: which namespace is bound, and what may be named in it."""

from __future__ import annotations

import pytest

from queues.messages import WARNING_LIMIT
from queues.namespace_binding import annotation_fault, binding_refusal, binds, may_name, staying_warning
from queues.queue import Queue
from queues.tree import Tree
from tests.support.cases import each_case

#: `research` has `labs` with `vision` below; `lost` has a parent that is not there, `a` and `b` are a cycle.
TREE = Tree(
    {
        name: Queue(name=name, parent=parent)
        for name, parent in {
            "research": "root",
            "labs": "research",
            "vision": "labs",
            "default": "root",
            "lost": "nobody",
            "below-lost": "lost",
            "a": "b",
            "b": "a",
        }.items()
    }
)


@each_case(
    ("annotation", "off", "on"),
    [
        ("", False, True),
        ("true", True, True),
        ("false", False, False),
        ("yes", True, True),
        ("True", True, True),
    ],
)
def test_the_annotation_counts_before_the_setting_and_an_unknown_word_binds(
    annotation: str, off: bool, on: bool
) -> None:
    assert (binds(annotation, setting=False), binds(annotation, setting=True)) == (off, on)


@pytest.mark.parametrize(
    ("annotation", "is_fault"), [("", False), ("true", False), ("false", False), ("yes", True)]
)
def test_other_words_are_refused_with_those_that_are_known(annotation: str, is_fault: bool) -> None:
    fault = annotation_fault(annotation)
    known = 'metadata.annotations[sluice.dev/binding]: "yes" is not known; use one of "true", "false"'
    assert fault == (known if is_fault else "")


@each_case(
    ("bound_to", "names"),
    [
        ("research", {"research", "labs", "vision"}),
        ("vision", {"vision"}),
        ("root", {"root", "research", "labs", "vision", "default"}),
        ("default", {"default"}),
        ("lost", {"lost", "below-lost"}),
        ("a", {"a", "b"}),
        ("nobody", {"nobody"}),
    ],
)
def test_the_queue_and_those_below_it_may_be_named_and_no_other(bound_to: str, names: set[str]) -> None:
    """Also where the chain of the queue is broken, and where the queue does not exist."""
    asked = {*TREE, "nobody", "missing"}
    assert {name for name in asked if may_name(name, bound_to=bound_to, tree=TREE)} == names


def test_the_refusal_says_what_may_be_named_and_who_can_change_that() -> None:
    assert binding_refusal("default", bound_to="research", namespace="team") == (
        'namespace "team" is bound to queue "research", and queue "default" is neither that nor below it; '
        "name no queue, or one of those; users who may update the namespace can end that "
        "(annotation sluice.dev/binding)"
    )


@pytest.mark.parametrize(
    ("pods", "text"),
    [
        ({}, ""),
        ({"labs": 3, "research": 1}, ""),
        (
            {"labs": 3, "default": 1},
            '1 pod stays in queue "default": only what is new is bound, and stops miss them',
        ),
        (
            {"default": 4, "a": 2, "b": 1},
            '7 pods stay in queue "a" and 2 more: only what is new is bound, and stops miss them',
        ),
    ],
    ids=str,
)
def test_who_binds_is_told_of_the_pods_of_other_queues(pods: dict[str, int], text: str) -> None:
    assert staying_warning(pods, bound_to="research", tree=TREE) == text


def test_the_warning_is_as_long_as_clients_show() -> None:
    warning = staying_warning({"q" * 253: 100_000, "z": 1}, bound_to="research", tree=TREE)
    assert len(warning) <= WARNING_LIMIT
