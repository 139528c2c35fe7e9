"""uninstall: takes Sluice off the cluster, whether its server runs or not.

Promises
- Without --yes nothing is changed; what would be is printed. The exit code is 1, unless --dry-run was given.
- With a namespace other than the server's, as its webhooks and rights name it, nothing is changed either.
- Afterwards no object bears a gate, a label, an annotation or a webhook of Sluice, but for pod templates,
  whose change would replace the pods. Queues, PodGroups and Commands stay, unless --definitions is given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kubectl_queue.access.replicas import NAMESPACE
from kubectl_queue.cli.flags import Flags, bool_flag
from kubectl_queue.cli.options import COMMAND, DRY_RUN, DryRun
from kubectl_queue.commands.verbs import Verb
from kubectl_queue.errors import QueueError, UsageError
from kubectl_queue.removal.inventory import Installation, Marks, read_inventory
from kubectl_queue.session import Session

_COMMAND = f"{COMMAND} uninstall"


def run_uninstall(session: Session, flags: Flags) -> int:
    if flags.names:
        raise UsageError("uninstall takes no names", see=_COMMAND)
    namespace = flags.text("namespace") or NAMESPACE
    definitions = flags.on("definitions")
    from kubectl_queue.removal.remover import Remover  # noqa: PLC0415 - not for other commands

    console = session.console
    remover = Remover(session.client, namespace=namespace, say=console.say, progress=console.progress)
    remover.check_namespace()
    inventory = read_inventory(session.client, namespace=namespace)
    if session.dry_run is not DryRun.NONE or not flags.on("yes"):
        for line in plan(inventory, definitions=definitions):
            console.say(line)
        console.note(f"Nothing was changed. To do it: {_COMMAND} --yes")
        return 0 if session.dry_run is not DryRun.NONE else 1
    left = remover.remove(inventory, definitions=definitions)
    if not left.empty:
        raise QueueError(
            "some objects still bear marks of Sluice; something writes them: repeat this command"
        )
    for line in advice(left):
        console.note(line)
    return 0


def plan(inventory: Installation, *, definitions: bool) -> Iterator[str]:
    """What would be done, a line each."""
    own = (*inventory.checks, *inventory.calls, *inventory.rights, *inventory.server)
    for item in (*own, *(inventory.definitions if definitions else ())):
        yield f"{item.shown} deleted (dry run)"
    marks = inventory.marks
    for number, what, text in (
        (len(marks.gated), "pod", "would be let go: stopped by a queue, or of one that is not there"),
        (
            len(marks.suspended),
            "workload",
            "that a drain suspended, or brought to zero replicas, would be resumed",
        ),
        (len(marks.pods), "pod", "would lose our labels and annotations"),
        (len(marks.workloads), "workload", "would lose our labels and annotations"),
        (len(marks.podgroups), "PodGroup", "would lose our labels and annotations"),
        (len(marks.namespaces), "namespace", "would lose our labels and annotations"),
    ):
        if number:
            yield f"{number} {what}{'' if number == 1 else 's'} {text}"
    if inventory.definitions and not definitions:
        yield "the definitions and all Queues, PodGroups and Commands stay; with --definitions they go too"
    if not own and marks.empty:
        yield "there is nothing of Sluice here"
    if own or marks.marked or marks.of_own_scheduler:
        yield from advice(marks)


def advice(marks: Marks) -> Iterator[str]:
    """What is left to do by hand."""
    if marks.marked:
        yield (
            f"{len(marks.marked)} waiting pods request sluice.dev/member, which no node offers. Until they "
            "run, keep the extender entries in kube-scheduler's configuration, with ignorable: true and "
            "ignoredByScheduler; then take them out"
        )
    else:
        yield (
            "no waiting pod requests sluice.dev/member: if kube-scheduler's configuration has extender "
            "entries of Sluice (sluice.dev/member, sluice.dev/scored), take them out and restart it"
        )
    for name, number in Counter(pod["spec"]["schedulerName"] for pod in marks.of_own_scheduler).items():
        yield (
            f"{number} waiting pods name scheduler {name}, which goes with Sluice. They run once "
            "kube-scheduler's configuration has a profile of that name; or delete those that are created "
            "again"
        )


VERBS = (
    Verb(
        name="uninstall",
        usage="",
        long=(
            "Take Sluice off the cluster: webhooks and policies, the server and its rights, and every gate, "
            "label and annotation of its on pods, workloads, PodGroups and namespaces. Pods that waited for "
            "a queue run, and what a drain suspended or scaled to zero is resumed. It needs no server that "
            "answers. Without --yes it only prints what it would do, and exits with 1. -n names the "
            "server's namespace, if it is not sluice-system. kube-scheduler's configuration is yours to "
            "change: before, set ignorable: "
            "true in the extender entries; afterwards, once no pod waits that requests sluice.dev/member, "
            "take them out (docs/operating/uninstall.md)."
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
        tells_outage=False,
    ),
)
