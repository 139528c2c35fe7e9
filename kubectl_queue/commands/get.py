"""get and list: queues as kubectl prints them, once or as they change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from kubectl_queue.access import kubectl
from kubectl_queue.access.client import ObjectList, Queues, WatchEvent
from kubectl_queue.access.queue_reader import ONE, read_queues
from kubectl_queue.cli.flag_values import quoted
from kubectl_queue.cli.flags import Flag, Flags, bool_flag, names
from kubectl_queue.cli.options import (
    GET_OUTPUT,
    NO_HEADERS,
    SELECTOR,
    Output,
)
from kubectl_queue.cli.suggestions import with_suggestions
from kubectl_queue.commands.verbs import Verb
from kubectl_queue.errors import ExpiredError, ForbiddenError, QueueError, UsageError
from kubectl_queue.objects.fields import Object, name_of, value_at
from kubectl_queue.output.formats import (
    DOCUMENTS,
    dump_objects,
    typed_name,
)
from kubectl_queue.output.tables import Table
from kubectl_queue.session import Session
from kubectl_queue.views import drain_status as drains

_FLAGS = (
    GET_OUTPUT,
    SELECTOR,
    Flag(name="sort-by", value="PATH", help="Sort by a field, e.g. .spec.weight."),
    Flag(
        name="label-columns",
        short="L",
        value="LABELS",
        help="Labels that get a column each, with commas between; may be repeated.",
        repeated=True,
        default=(),
    ),
    NO_HEADERS,
    bool_flag("ignore-not-found", "Print nothing for a queue that does not exist, and exit with 0."),
    bool_flag("watch", "Go on printing queues as they change.", short="w"),
)


def run_get(session: Session, flags: Flags) -> int:
    chosen = names(flags.names, command="kubectl queue get")
    if chosen and flags.text("selector"):
        raise UsageError("name cannot be provided when a selector is specified", see="kubectl queue get")
    if session.output is Output.TEMPLATE:
        return _by_kubectl(session, flags, chosen)
    if flags.on("watch"):
        return _watch(session, flags, chosen)
    if not chosen:
        try:
            items = session.api.list(selector=flags.text("selector")).items
        except ForbiddenError as exc:
            exc.add_note(f"; or name a queue that you may read: {ONE} NAME")
            raise
        return _print(session, flags, items, as_list=True)
    items, errors = _read_each(session.api, chosen, ignore=flags.on("ignore-not-found"))
    code = _print(session, flags, items, as_list=len(chosen) > 1) if items else 0
    if not flags.on("no-headers"):
        _print_drains(session, items)
    for error in errors:
        session.console.note(str(error))
    return 1 if errors else code


#: Flags that mean the same to kubectl.
_SAME_IN_KUBECTL = ("selector", "sort-by", "no-headers", "ignore-not-found", "watch", "request-timeout")


def _by_kubectl(session: Session, flags: Flags, chosen: Sequence[str]) -> int:
    """Let kubectl get the queues and print them by the template."""
    words = ["get", "queues.scheduling.volcano.sh", *chosen, f"--output={session.template}"]
    for name in filter(flags.has, _SAME_IN_KUBECTL):
        value = flags.value(name)
        if isinstance(value, timedelta):
            value = f"{value.total_seconds():g}s"
        words.append(f"--{name}={str(value).lower() if isinstance(value, bool) else value}")
    return kubectl.stream(words, access=session.access_flags, environ=session.environ)


def _print_drains(session: Session, items: list[Object]) -> None:
    """How far the drain of each queue and of those below it is; only under tables."""
    draining = [item for item in items if drains.drain_status_of(item) is not None]
    if not draining or session.output not in {None, Output.TABLE, Output.WIDE}:
        return
    queues = read_queues(session.api, [name_of(item) for item in draining])
    for item in draining:
        name = name_of(item)
        branch = queues.from_top(name) if name in queues.items else [item]
        heading = "Drain:" if len(items) == 1 else f"Drain of {name}:"
        lines = drains.lines(branch, now=queues.now)
        session.console.say("\n".join(["", heading, *(f"  {line}" for line in lines)]))


def run_list(session: Session, flags: Flags) -> int:
    if flags.names:
        raise UsageError("list takes no names; to see some: kubectl queue get NAME", see="kubectl queue list")
    return run_get(session, flags)


def _read_each(api: Queues, chosen: Iterable[str], *, ignore: bool) -> tuple[list[Object], list[QueueError]]:
    """The queues of these names, and the errors of those that could not be read."""
    items, errors = [], []
    for name in chosen:
        try:
            with with_suggestions(api, name):
                items += api.list(name=name).items if ignore else [api.get(name)]
        except QueueError as exc:
            errors.append(exc)
    return items, errors


def _print(session: Session, flags: Flags, items: list[Object], *, as_list: bool) -> int:
    items = _sorted(items, by=flags.text("sort-by"))
    if session.output in DOCUMENTS:
        session.console.say(dump_objects(items, output=session.output, as_list=as_list))
    elif not items:
        session.console.note("No resources found")
    else:
        printer(session, flags)(items)
    return 0


def printer(session: Session, flags: Flags) -> Callable[[list[Object]], None]:
    """Prints items one after the other; the headings come with the first."""
    keys = [key for text in flags.many("label-columns") for key in text.split(",") if key]
    wide = session.output is Output.WIDE
    table = Table(wide=wide, headings=not flags.on("no-headers"), labels=keys)

    def show(items: list[Object]) -> None:
        if session.output is Output.NAME:
            lines = [typed_name(item["metadata"]["name"]) for item in items]
        elif session.output in DOCUMENTS:
            texts = (dump_objects([item], output=session.output, as_list=False) for item in items)
            lines = [_separate(text, session) for text in texts]
        else:
            lines = table.lines(items, now=session.api.now)
        if lines:
            session.console.say("\n".join(lines))

    return show


def _separate(text: str, session: Session) -> str:
    return f"---\n{text}" if session.output is Output.YAML else text


def _sorted(items: list[Object], *, by: str) -> list[Object]:
    """By a path such as `.spec.weight` or `{.spec.weight}`; those without a value come first.

    Raises UsageError where no item has a value there.
    """
    path = by.strip().removeprefix("{").removesuffix("}").lstrip(".")
    if not by:
        return items
    if items and all(value_at(item, path) is None for item in items):
        raise UsageError(
            f"couldn't find any field with path {quoted(by)} in the list of queues; "
            "give one that they have, such as --sort-by=.spec.weight"
        )
    return sorted(items, key=lambda item: _order(value_at(item, path)))


def _order(value: Any) -> tuple[int, float, str]:
    """Nothing, then numbers, then texts."""
    if value is None:
        return (0, 0, "")
    return (1, value, "") if isinstance(value, int | float) else (2, 0, str(value))


def _watch(session: Session, flags: Flags, chosen: tuple[str, ...]) -> int:
    if len(chosen) > 1:
        raise UsageError("watch is only supported on one queue or on all", see="kubectl queue get")
    name, selector = "".join(chosen), flags.text("selector")
    if name and not flags.on("ignore-not-found"):
        session.api.get(name)
    show = printer(session, flags)

    def listed(listing: ObjectList) -> str:
        show(_sorted(listing.items, by=flags.text("sort-by")))
        session.tell_outage()
        return listing.resource_version

    heard = session.follow_outage
    for event in changes(session.api, listed=listed, name=name, selector=selector, heard=heard):
        show([event.object])
    return 0


def changes(
    api: Queues,
    *,
    listed: Callable[[ObjectList], str],
    name: str,
    selector: str,
    heard: Callable[[], None] = lambda: None,
) -> Iterator[WatchEvent]:
    """Changes without end, after a list; lists again where the server no longer has the resourceVersion.

    `heard`: called with each sign of life of the watch, one a minute at least.
    """
    since = ""
    while True:
        since = since or listed(api.list(name=name, selector=selector))
        try:
            for event in api.watch(since, name=name, selector=selector):
                since = str(value_at(event.object, "metadata.resourceVersion") or since)
                heard()
                if event.type != "BOOKMARK":
                    yield event
        except ExpiredError:
            since = ""


VERBS = (
    Verb(
        name="list",
        usage="",
        long=(
            "Show all queues, or those with certain labels, with the columns of `kubectl get queues`; "
            "RESUMES says when a stop ends by itself, where one does, and with -o wide LEFT how many pods of "
            "a queue that drains are still to go. A name of more than 48 letters is cut in the middle, but "
            "with -o wide and --no-headers."
        ),
        examples=(
            "kubectl queue list",
            "kubectl queue list -L team --sort-by=.spec.weight",
            "kubectl queue list -o custom-columns=NAME:.metadata.name,WEIGHT:.spec.weight",
        ),
        flags=_FLAGS,
        run=run_list,
    ),
    Verb(
        name="get",
        usage="[NAME...]",
        long=(
            "Show the queues of these names, or all, with the columns of `kubectl get queues`; RESUMES says "
            "when a stop ends by itself, where one does. Of a queue that was named and drains it says how "
            "far that is, in the queue and those below it, and what blocks it."
        ),
        examples=("kubectl queue get research", "kubectl queue get research -o yaml", "kubectl queue get -w"),
        flags=_FLAGS,
        run=run_get,
    ),
)
