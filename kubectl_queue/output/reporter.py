"""What a verb says of each queue that it changed, in the format asked for.

Promises: words one by one as things happen; documents, tables and templates at the end and as one. Of a
queue that stays as it is stderr says so, where the format has no place for it.
"""

from __future__ import annotations

from kubectl_queue.access.responses import Object
from kubectl_queue.cli.options import DryRun, Output
from kubectl_queue.output.formats import (
    DOCUMENTS,
    RESOURCE,
    by_template,
    check_template,
    dump_objects,
    typed_name,
)
from kubectl_queue.output.tables import Table
from kubectl_queue.session import Session

_SUFFIX = {DryRun.NONE: "", DryRun.CLIENT: " (dry run)", DryRun.SERVER: " (server dry run)"}


class Reporter:
    """For one command. Raises QueueError at once where a template of -o cannot be read."""

    def __init__(self, session: Session, *, dry_run: DryRun = DryRun.NONE) -> None:
        self._session = session
        self._suffix = _SUFFIX[dry_run]
        self._items: dict[str, Object] = {}
        if session.template:
            check_template(session.template, environ=session.environ)

    def say(self, name: str, text: str) -> None:
        """`text` follows the queue's name."""
        line = f"{typed_name(name)} {text}{self._suffix}"
        if self._session.output is None:
            self._session.console.say(line)
        elif text.startswith("unchanged"):
            self._session.console.note(line)

    def keep(self, item: Object) -> None:
        """The item to print at the end, in the place of an earlier one of its name."""
        self._items[item["metadata"]["name"]] = item

    def deleted(self, name: str) -> None:
        shown = (
            typed_name(name)
            if self._session.output is Output.NAME
            else f'{RESOURCE} "{name}" deleted{self._suffix}'
        )
        self._session.console.say(shown)

    def finish(self) -> None:
        """Print what was kept until the end."""
        output = self._session.output
        items = list(self._items.values())
        if output is None or not items:
            return
        if output is Output.TEMPLATE:
            session = self._session
            session.console.write(by_template(items, session.template, environ=session.environ))
            return
        if output in DOCUMENTS:
            text = dump_objects(items, output=output, as_list=len(items) > 1)
        elif output is Output.NAME:
            text = "\n".join(typed_name(item["metadata"]["name"]) for item in items)
        else:
            table = Table(wide=output is Output.WIDE)
            text = "\n".join(table.lines(items, now=self._session.api.now))
        self._session.console.say(text)
