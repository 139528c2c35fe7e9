"""create: a queue from flags."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from kubectl_queue.access.client import API_VERSION, KIND
from kubectl_queue.access.queue_reader import read_generations, read_queues
from kubectl_queue.cli import flag_values as values
from kubectl_queue.cli import label_selectors as selecting
from kubectl_queue.cli.flags import (
    Flag,
    Flags,
    bool_flag,
    choice_flag,
    int_flag,
    names,
)
from kubectl_queue.cli.options import (
    DRY_RUN,
    OUTPUT,
    TIMEOUT,
    DryRun,
)
from kubectl_queue.commands.verbs import Verb
from kubectl_queue.edit.wait import PollTimer, wait
from kubectl_queue.errors import UsageError
from kubectl_queue.objects.fields import Object, name_of, status_of
from kubectl_queue.output.formats import Reporter
from kubectl_queue.session import Session
from kubectl_queue.views.acknowledgement import acknowledgement_wait
from queues.fields.table import BY_NAME
from queues.quota.resource_names import NOTHING_KNOWN, name_warnings
from queues.states import Action, Desired, ParkedPods, StopPolicy

_COMMAND = "kubectl queue create"


def _help(field: str) -> str:
    return BY_NAME[field].help


def _resources(field: str) -> Flag:
    return Flag(
        name=field, help=_help(field), default=None, read=values.parse_resources, value="cpu=4,memory=8Gi"
    )


#: Flags that set one field of `spec`, by the field's name.
_FIELDS: Mapping[str, Flag] = {
    "parent": Flag(name="parent", value="NAME", help=_help("parent")),
    "namespaceSelector": Flag(
        name="namespace-selector",
        default=None,
        read=selecting.parse_namespace_selector,
        value="SELECTOR",
        help=f"{_help('namespaceSelector')} E.g. team=a; all if not given.",
    ),
    "weight": int_flag("weight", _help("weight")),
    "priority": int_flag("priority", _help("priority")),
    "state": choice_flag("state", _help("state"), among=[word.value for word in Desired]),
    "stopPolicy": choice_flag("stop-policy", _help("stopPolicy"), among=[word.value for word in StopPolicy]),
    "reason": Flag(name="reason", help=_help("reason")),
    "parked": choice_flag("parked", _help("parked"), among=[word.value for word in ParkedPods]),
    "reclaimable": bool_flag("reclaimable", _help("reclaimable")),
    "capability": _resources("capability"),
    "deserved": _resources("deserved"),
    "guarantee": _resources("guarantee"),
    "schedulerPolicy": Flag(
        name="scheduler-policy",
        value="NAME",
        help=_help("schedulerPolicy"),
    ),
    "dequeueStrategy": choice_flag("dequeue-strategy", _help("dequeueStrategy"), among=["traverse", "fifo"]),
    "type": Flag(name="type", help=_help("type")),
}


def run_create(session: Session, flags: Flags) -> int:
    given = names(flags.names, command=_COMMAND)
    if len(given) != 1:
        raise UsageError(f"exactly one NAME is required, got {len(given)}", see=_COMMAND)
    name, dry_run = given[0], session.dry_run
    item: Object = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec(flags)}
    if dry_run is DryRun.CLIENT:
        for text in name_warnings({}, item["spec"], NOTHING_KNOWN):  # else the server says it
            session.console.warn(text)
    else:
        item = session.api.create(item, dry_run=dry_run)
    reporter = Reporter(session, dry_run=dry_run)
    reporter.say(name, "created")
    if flags.on("wait") and dry_run is DryRun.NONE:
        item = _wait_until_acknowledged(session, item, timer=PollTimer(flags.duration("timeout")))
        reporter.say(name, f"acknowledged: {status_of(item).get('state')}")
    reporter.keep(item)
    reporter.finish()
    return 0


def _wait_until_acknowledged(session: Session, item: Object, *, timer: PollTimer) -> Object:
    """The queue once the controller has written its status."""
    name = name_of(item)
    verdict = read_queues(session.api, (name,)).decisions.verdict(name, live=True)
    condition = acknowledgement_wait(Action.OPEN if verdict.schedules else Action.SUSPEND, verdict)
    items = wait(
        condition,
        items=[item],
        read=lambda: [session.api.get(name)],
        say=session.console.progress,
        timer=timer,
        chain=partial(read_generations, session.api),
    )
    return items[0]


def spec(flags: Flags) -> dict[str, Any]:
    """The fields that were given, and no others: defaults are the server's."""
    fields = {field: flags.value(flag.name) for field, flag in _FIELDS.items() if flags.has(flag.name)}
    if "guarantee" in fields:
        fields["guarantee"] = {"resource": fields["guarantee"]}
    return fields


VERBS = (
    Verb(
        name="create",
        usage="NAME",
        long="Make a queue. What is not given is left to the server's defaults.",
        examples=(
            "kubectl queue create research --weight 4 --capability cpu=64,memory=256Gi",
            "kubectl queue create team-a --parent research --reclaimable=false",
            "kubectl queue create team-b --parent research --namespace-selector 'team in (b,shared)'",
        ),
        flags=(
            *_FIELDS.values(),
            bool_flag("wait", "Wait until the controller has taken it up."),
            TIMEOUT,
            DRY_RUN,
            OUTPUT,
        ),
        run=run_create,
    ),
)
