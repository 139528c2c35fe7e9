"""Prints a drawing of queues again as they change: what `tree -w` and `usage -w` do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kubectl_queue.access.client import ObjectList
from kubectl_queue.cli.flags import Flag, Flags, bool_flag
from kubectl_queue.cli.options import NO_HEADERS, Output, formats
from kubectl_queue.commands.get import changes
from kubectl_queue.objects.fields import Object, name_of
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.output.formats import DOCUMENTS, dump
from kubectl_queue.session import Session
from kubectl_queue.views.text import text_without_times


def redrawn_flags(watch: str) -> tuple[Flag, ...]:
    """The flags of a command that draws queues. `watch`: the help of `--watch`."""
    return (
        formats(Output.TABLE, Output.JSON, Output.YAML),
        NO_HEADERS,
        bool_flag("watch", watch, short="w"),
    )


def queues_document(session: Session, flags: Flags, queues: Sequence[object]) -> str:
    """The queues as JSON or YAML; while they are watched, each is a YAML document of its own."""
    text = dump({"queues": queues}, output=session.output or Output.JSON)
    return f"---\n{text}" if flags.on("watch") and session.output is Output.YAML else text


def redraw(session: Session, draw: Callable[[QueueObjects], str]) -> int:
    """Print what is drawn, then again after each change by which it differs, without end."""
    items: dict[str, Object] = {}
    shown = ""

    def show() -> None:
        nonlocal shown
        text = draw(QueueObjects(items.values(), now=session.api.now))
        told = text_without_times(text)
        if told != text_without_times(shown):
            session.console.say(text if not shown or session.output in DOCUMENTS else f"\n{text}")
        shown = text

    def listed(listing: ObjectList) -> str:
        items.clear()
        items.update((name_of(item), item) for item in listing.items)
        show()
        session.tell_outage()
        return listing.resource_version

    heard = session.follow_outage
    for event in changes(session.api, listed=listed, name="", selector="", heard=heard):
        if event.type == "DELETED":
            items.pop(name_of(event.object), None)
        else:
            items[name_of(event.object)] = event.object
        show()
    return 0
