"""tree: the hierarchy, with the state of each queue and its cause."""

from __future__ import annotations

from kubectl_queue.cli.flags import Flags
from kubectl_queue.cli.options import NO_HEADERS, Output, formats
from kubectl_queue.cli.suggestions import queue_not_found
from kubectl_queue.commands.command import Verb, names
from kubectl_queue.errors import UsageError
from kubectl_queue.output import tree as trees
from kubectl_queue.output.formats import DOCUMENTS, dump
from kubectl_queue.queue_objects import read_queues, status_of
from kubectl_queue.session import Session


def run_tree(session: Session, flags: Flags) -> int:
    tops = names(flags.names, command="kubectl queue tree")
    if len(tops) > 1:
        raise UsageError("tree takes one NAME at most", see="kubectl queue tree")
    queues = read_queues(session.api, ())
    top = "".join(tops)
    if top and top not in queues.tree:
        raise queue_not_found(top, among=queues.tree)
    if session.output in DOCUMENTS:
        session.console.say(dump({"queues": trees.as_structure(queues, top=top)}, output=session.output))
        return 0
    glyphs = trees.UNICODE if session.console.unicode else trees.ASCII
    lines = trees.draw(queues, top=top, glyphs=glyphs, headings=not flags.on("no-headers"))
    session.console.say("\n".join(lines))
    if not any(map(status_of, queues.items.values())):
        session.console.warn("no queue has a status; is Sluice's controller running?")
    return 0


VERBS = (
    Verb(
        name="tree",
        usage="[NAME]",
        long=(
            "Draw the hierarchy of queues, or what is below one of them. STATE is what follows from the "
            "queues as they are now; PENDING and RUNNING count the pods of a queue and of all below it; "
            "CAUSE names the queue to mend, and says where the controller has not written the same yet."
        ),
        examples=("kubectl queue tree", "kubectl queue tree research", "kubectl queue tree -o json"),
        flags=(formats(Output.TABLE, Output.JSON, Output.YAML), NO_HEADERS),
        run=run_tree,
    ),
)
