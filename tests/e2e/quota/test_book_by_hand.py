"""Whatever somebody does to the book: what waits goes on being released, within the capability."""

from __future__ import annotations

import base64
from collections.abc import Callable
from uuid import uuid4

import pytest

from controller.quota.book_writes import KEY, NAME
from queues.quota.book import MAX_INTENTS, Book, encode, parse
from tests.support.e2e.objects import on_a_node
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until

PATH = f"/api/v1/namespaces/sluice-system/configmaps/{NAME}"
#: As much as a ConfigMap takes.
MOST = 1024 * 1024
TOO_MANY = "\n".join((encode(Book(term=7)), *(f"={uuid4()} 1" for _ in range(MAX_INTENTS + 1))))


def edited(sandbox: Sandbox, **data: str | None) -> None:
    sandbox.api.patch(PATH, {"data": data}).must()


def filled(sandbox: Sandbox) -> None:
    """Beside the book, so that it has no room to grow."""
    book = sandbox.api.get(PATH).must().body["data"][KEY]
    binary = base64.b64encode(b"x" * 1024).decode()
    sandbox.api.patch(
        PATH, {"data": {"a": "x" * (MOST - 1024 - len(book))}, "binaryData": {"b": binary}}
    ).must()


EDITS: dict[str, Callable[[Sandbox], object]] = {
    "deleted": lambda sandbox: sandbox.api.delete(PATH).must(),
    "emptied": lambda sandbox: edited(sandbox, **{KEY: None}),
    "of another version": lambda sandbox: edited(sandbox, **{KEY: "2 7\n{}"}),
    "of unknown pods": lambda sandbox: edited(
        sandbox, **{KEY: encode(Book(term=7, intents={str(uuid4()): 7}))}
    ),
    "of too many pods": lambda sandbox: edited(sandbox, **{KEY: TOO_MANY}),
    "of the greatest term": lambda sandbox: edited(sandbox, **{KEY: encode(Book(term=10**19 - 1))}),
    "as large as it can be": lambda sandbox: edited(sandbox, **{KEY: "x" * MOST}),
    "without room": filled,
    "immutable": lambda sandbox: sandbox.api.patch(PATH, {"immutable": True}).must(),
}


def running(sandbox: Sandbox) -> set[str]:
    return {name for name, pod in sandbox.read_pods().items() if on_a_node(pod)}


@pytest.mark.parametrize("edit", EDITS)
def test_what_waits_goes_on_being_released(sandbox: Sandbox, edit: str) -> None:
    queue = sandbox.queue(capability={"pods": "1"})
    sandbox.pods("work", 3, queue)
    [first] = until(lambda: running(sandbox), "a pod to run")
    EDITS[edit](sandbox)
    sandbox.api.delete(f"{sandbox.pods_path}/{first}").must()
    until(lambda: running(sandbox) - {first}, "the next pod to run")
    assert len(running(sandbox) - {first}) == 1
    book = sandbox.api.get(PATH).must().body
    assert (list(book["data"]), "binaryData" in book) == ([KEY], False)
    assert parse(book["data"][KEY]).term > 0
