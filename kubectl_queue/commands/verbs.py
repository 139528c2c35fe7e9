"""What a verb is, and `TABLE`: all verbs in the order of the help, with the module that has each.

A module is imported when one of its verbs is used: most of the time that a command takes goes into
imports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import NamedTuple

from kubectl_queue.cli.flags import Flag, Flags
from kubectl_queue.cli.options import COMMAND
from kubectl_queue.session import Session


@dataclass(frozen=True, kw_only=True)
class Verb:
    """`usage` follows the name; `run` returns the exit code.

    `tells_outage`: while no replica of the server leads, what it says of queues is of before, and it says so.
    """

    name: str
    usage: str
    long: str
    examples: Sequence[str]
    flags: Sequence[Flag]
    run: Callable[[Session, Flags], int]
    tells_outage: bool = True

    @property
    def command(self) -> str:
        return f"{COMMAND} {self.name}"

    def execute(self, session: Session, flags: Flags) -> int:
        """Run it, and say where no replica of the server leads; an error says so itself."""
        session.tells_outage = self.tells_outage
        code = self.run(session, flags)
        if code == 0:
            session.tell_outage()
        return code


class VerbRow(NamedTuple):
    """What a verb is for, and the module whose `VERBS` has it."""

    short: str
    module: str


TABLE: Mapping[str, VerbRow] = {
    "list": VerbRow("Show all queues.", "get"),
    "get": VerbRow("Show some queues, or all.", "get"),
    "tree": VerbRow("Draw the hierarchy, with states and their causes.", "tree"),
    "ui": VerbRow("Show queues on a page in your browser, live, with what can be done to them.", "ui"),
    "usage": VerbRow("Show what queues use of their quotas, and how many pods wait for room.", "usage"),
    "reclaim": VerbRow(
        "Say which pods would be evicted for a queue that waits for what it deserves.", "reclaim"
    ),
    "why": VerbRow("Say what stops a pod, a workload or a queue, who did that, and the way out.", "why"),
    "history": VerbRow("Show who changed a queue, when and why.", "history"),
    "windows": VerbRow("Show when change windows stop queues; start, skip and extend one.", "windows"),
    "create": VerbRow("Make a queue.", "create"),
    "open": VerbRow("Let queues take and schedule work.", "actions"),
    "close": VerbRow("Let queues take no new work and run out.", "actions"),
    "suspend": VerbRow("Let queues take work and schedule none.", "actions"),
    "hold": VerbRow("Let queues schedule nothing new, by their stop policy.", "actions"),
    "drain": VerbRow("Let queues schedule nothing new, and evict what runs.", "drain"),
    "stop": VerbRow("Drain queues, or hold them with --keep-already-running, as kueuectl does.", "drain"),
    "resume": VerbRow("Undo a suspension and a stop policy, and leave out the window that is on.", "actions"),
    "move": VerbRow("Put queues under another parent.", "move"),
    "delete": VerbRow("Delete queues.", "delete"),
    "convert": VerbRow("Print queues in place of Kueue's ClusterQueues, Cohorts and LocalQueues.", "convert"),
    "policy": VerbRow("Show, check and explain scheduling policies.", "policy"),
    "uninstall": VerbRow("Take Sluice off the cluster: gates, labels, webhooks, server.", "uninstall"),
    "status": VerbRow("Show the server: replicas, leader, certificates, webhooks.", "status"),
    "version": VerbRow("Show the versions of the plugin, of the server and of Kubernetes.", "version"),
}


def load(name: str) -> Verb:
    """The verb of a name in the table."""
    module = import_module(f"kubectl_queue.commands.{TABLE[name].module}")
    verbs: dict[str, Verb] = {verb.name: verb for verb in module.VERBS}
    return verbs[name]
