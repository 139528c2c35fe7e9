"""uninstall: takes Sluice off the cluster, whether its server runs or not.

Promises
- Without --yes nothing is changed; what would be is printed.
- Afterwards no object bears a gate, a label, an annotation or a webhook of Sluice, but for pod templates,
whose
  change would replace the pods. Queues, PodGroups and Commands stay, unless --definitions is given.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_queue.cli.flags import Flags, bool_flag
from kubectl_queue.cli.options import COMMAND, DRY_RUN, DryRun
from kubectl_queue.commands.verbs import Verb
from kubectl_queue.errors import QueueError, UsageError
from kubectl_queue.removal.inventory import OWN_SCHEDULER, Inventory, Marks, read_inventory
from kubectl_queue.session import Session

_COMMAND = f"{COMMAND} uninstall"
#: The server's own, in the manifests; -n names another.
_NAMESPACE = "sluice-system"


def run_uninstall(session: Session, flags: Flags) -> int:
    if flags.names:
        raise UsageError("uninstall takes no names", see=_COMMAND)
    namespace = flags.text("namespace") or _NAMESPACE
    definitions = flags.on("definitions")
    inventory = read_inventory(session.client, namespace=namespace)
    if session.dry_run is not DryRun.NONE or not flags.on("yes"):
        for line in plan(inventory, definitions=definitions):
            session.console.say(line)
        session.console.note(f"Nothing was changed. To do it: {_COMMAND} --yes")
        return 0
    from kubectl_queue.removal.remover import Remover  # noqa: PLC0415 - not for a dry run

    console = session.console
    remover = Remover(session.client, namespace=namespace, say=console.say, progress=console.progress)
    left = remover.remove(inventory, definitions=definitions)
    if not left.empty:
        raise QueueError(
            "some objects still bear marks of Sluice; something writes them: repeat this command"
        )
    for line in advice(left):
        console.note(line)
    return 0


def plan(inventory: Inventory, *, definitions: bool) -> Iterator[str]:
    """What would be done, a line each."""
    own = (*inventory.calls, *inventory.rights, *inventory.server)
    for item in (*own, *(inventory.definitions if definitions else ())):
        yield f"{item.shown} deleted (dry run)"
    marks = inventory.marks
    for number, text in (
        (len(marks.gated), "pods would be let go: their queue stops them, or is not there"),
        (len(marks.suspended), "workloads that a drain suspended would be resumed"),
        (len(marks.pods), "pods would lose our labels and annotations"),
        (len(marks.workloads), "workloads would lose our labels and annotations"),
        (len(marks.podgroups), "PodGroups would lose our labels and annotations"),
        (len(marks.namespaces), "namespaces would lose our labels and annotations"),
    ):
        if number:
            yield f"{number} {text}"
    if inventory.definitions and not definitions:
        yield "the definitions and all Queues, PodGroups and Commands stay; with --definitions they go too"
    if not own and marks.empty:
        yield "there is nothing of Sluice here"
    yield from advice(marks)


def advice(marks: Marks) -> Iterator[str]:
    """What is left to do by hand."""
    if marks.marked:
        yield (
            f"{len(marks.marked)} waiting pods request sluice.dev/member, which no node offers. Until they "
            "run, keep the extender entry in kube-scheduler's configuration, with ignorable: true and "
            "ignoredByScheduler"
        )
    if marks.of_own_scheduler:
        yield (
            f"{len(marks.of_own_scheduler)} waiting pods name scheduler {OWN_SCHEDULER}, which goes with "
            "Sluice. They run once kube-scheduler's configuration has a profile of that name; or delete "
            "those that are created again"
        )


VERBS = (
    Verb(
        name="uninstall",
        usage="",
        long=(
            "Take Sluice off the cluster: webhooks and policies, the server and its rights, and every gate, "
            "label and annotation of its on pods, workloads, PodGroups and namespaces. Pods that waited for "
            "a queue run, and what a drain suspended is resumed. It needs no server that answers. Without "
            "--yes it only prints what it would do. kube-scheduler's configuration is yours to change; what "
            "to do there is printed."
        ),
        examples=(
            f"{_COMMAND} --dry-run=client",
            f"{_COMMAND} --yes",
            f"{_COMMAND} --yes --definitions",
        ),
        flags=(
            bool_flag("yes", "Do it."),
            bool_flag(
                "definitions",
                "Remove the definitions too, and with them all Queues, PodGroups and Commands. Only where "
                "nothing of Volcano needs them.",
            ),
            DRY_RUN,
        ),
        run=run_uninstall,
    ),
)
