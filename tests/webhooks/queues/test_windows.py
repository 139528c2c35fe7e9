"""`/mutate/queues` and `/validate/queues`: which windows are on after an edit, and what that says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cases import each_case, with_new
from tests.support.http.asking import OWN, Server
from tests.support.http.wire_objects import Wire, queue
from tests.support.webhooks.json_patch import applied

#: It is 2030-01-01T12:00:00Z, a Tuesday.
NOON = {
    "name": "noon",
    "schedule": "0 12 * * *",
    "duration": "2h",
    "timeZone": "UTC",
    "stopPolicy": "Hold",
    "reason": "backups",
}
NIGHT = {**NOON, "name": "night", "schedule": "0 2 * * *"}
ON = {"name": "noon", "start": "2030-01-01T12:00:00Z", "until": "2030-01-01T14:00:00Z"}
NIGHT_ON = {"name": "night", "start": "2030-01-01T02:00:00Z", "until": "2030-01-01T04:00:00Z"}
SKIP = {"window": "noon", "start": "2030-01-01T12:00", "skip": True}
STARTS = 'window noon of queue "q" is on from now until 2030-01-01T14:00:00Z: Hold'
ENDS = 'this ends window noon of queue "q", which was on until 2030-01-01T14:00:00Z'
NOT_YOURS = "spec.inWindow is written by the server alone: what this edit writes there is left out"


@pytest.fixture
def server() -> Server:
    return Server()


def spec(*windows: Any, on: Any = (), **more: Any) -> Wire:
    given = {"windows": list(windows), "inWindow": list(on), **more}
    return {key: value for key, value in given.items() if value}


def edited(server: Server, before: Wire | None, after: Wire, **request: Any) -> tuple[Wire, tuple[str, ...]]:
    """The spec that is stored, and the warnings."""
    obj = {**queue("q"), "spec": {**queue("q")["spec"], **after}}
    old = {**queue("q"), "spec": {**queue("q")["spec"], **(before or {})}}
    how = {"operation": "CREATE"} if before is None else {"operation": "UPDATE", "old": old}
    answer = server.ask("/mutate/queues", obj, **how, **request)
    assert answer.allowed, answer.message
    stored: Wire = applied(answer.patch, obj)
    return stored["spec"], tuple(answer.warnings)


@each_case(
    ("before", "after", "on", "says"),
    [
        (None, spec(NOON), [ON], [STARTS]),  # it holds from its first version on
        (None, spec(NIGHT), None, []),
        (None, spec(NOON, on=[NIGHT_ON]), [ON], [STARTS, NOT_YOURS]),
        ({}, spec(NOON), [ON], [STARTS]),
        (spec(NOON), spec(NOON, NIGHT), [ON], [STARTS]),
        (spec(NOON, on=[ON]), spec(NOON, NIGHT, on=[ON]), [ON], []),
        (spec(NOON, on=[ON]), spec(NIGHT, on=[ON]), None, [ENDS]),
        (spec(NOON, on=[ON]), {}, None, [ENDS]),
        (spec(NOON, on=[ON]), spec(NOON, on=[ON], windowOverrides=[SKIP]), None, [ENDS]),
        (spec(NOON, windowOverrides=[SKIP]), spec(NOON), [ON], [STARTS]),  # a skip that is taken back
        (
            spec(NOON, on=[ON]),
            spec({**NOON, "duration": "3h", "stopPolicy": "HoldAndDrain"}, on=[ON]),
            [{**ON, "until": "2030-01-01T15:00:00Z"}],
            [
                'window noon of queue "q" is on until 2030-01-01T15:00:00Z now; it was until '
                "2030-01-01T14:00:00Z",
                'window noon of queue "q" is on, and sets HoldAndDrain now; it was Hold',
            ],
        ),
        (
            {},
            spec({**NOON, "schedule": "59 10 * * *", "duration": "1h1m30s"}),
            None,
            ['window noon of queue "q" ends within a minute, so it stops nothing any more'],
        ),
        # what others write, and what a replace leaves out
        (spec(NOON, on=[ON]), spec(NOON), [ON], []),
        (spec(NOON, on=[ON]), spec(NOON, on=[{**ON, "until": "2031-01-01T00:00:00Z"}]), [ON], [NOT_YOURS]),
        (spec(NIGHT), spec(NIGHT, on=[NIGHT_ON]), None, [NOT_YOURS]),
        (spec(NOON, on=[ON]), spec(NOON, on="all"), [ON], [NOT_YOURS]),
        # no edge is written but by the leader and by edits of windows
        (spec(NOON), spec(NOON, reason="disks"), None, []),
        (spec(NIGHT, on=[NIGHT_ON]), spec(NIGHT, on=[NIGHT_ON], weight=2), [NIGHT_ON], []),
    ],
)
@with_new(server=Server)
def test_what_is_on_after_an_edit(
    server: Server, before: Wire | None, after: Wire, on: list[Wire] | None, says: list[str]
) -> None:
    stored, warnings = edited(server, before, after)
    assert stored.get("inWindow") == on
    assert list(warnings) == says
    assert all(len(warning) <= 250 for warning in warnings)


def test_the_server_writes_its_edges(server: Server) -> None:
    stored, warnings = edited(server, spec(NOON), spec(NOON, on=[ON]), user=OWN)
    assert (stored["inWindow"], warnings) == ([ON], ())
    assert "inWindow" not in edited(server, spec(NOON, on=[ON]), spec(NOON), user=OWN)[0]


def test_an_override_goes_with_its_window(server: Server) -> None:
    """Else a Git repository could not remove a window for which people have left out an occurrence."""
    before = spec(
        NOON, NIGHT, windowOverrides=[SKIP, {**SKIP, "window": "night", "start": "2030-01-02T02:00"}]
    )
    stored, warnings = edited(server, before, {**before, "windows": [NIGHT]})
    assert [each["window"] for each in stored["windowOverrides"]] == ["night"]
    assert warnings == ('1 of spec.windowOverrides of queue "q" went with their windows',)


@each_case(
    "wrong",
    [
        {"windows": [{**NIGHT, "schedule": "never"}]},
        {"windows": [NIGHT, NIGHT]},
        {"windows": [], "state": "Suspended", "resumeAt": "soon"},
    ],
    ids=["a schedule", "a name", "another field"],
)
def test_an_edit_that_is_refused_says_nothing_of_what_it_would_do(wrong: Wire) -> None:
    server, before = Server(), spec(NOON, on=[ON], windowOverrides=[SKIP])
    old, obj = (
        {**queue("q"), "spec": {**queue("q")["spec"], **each}} for each in (before, {**before, **wrong})
    )
    answer = server.ask("/mutate/queues", obj, old=old, operation="UPDATE")
    assert answer.warnings == []
    after = applied(answer.patch, obj) if answer.allowed else obj
    assert (
        not answer.allowed or not server.ask("/validate/queues", after, old=old, operation="UPDATE").allowed
    )


def test_an_override_of_no_occurrence_is_said_to_change_nothing(server: Server) -> None:
    wrong = {**SKIP, "start": "2030-01-01T12:30"}
    _, warnings = edited(server, spec(NIGHT), spec(NOON, NIGHT, windowOverrides=[wrong]))
    assert 'window noon of queue "q" does not begin at 2030-01-01T12:30:00Z by its schedule' in warnings[1]


def test_the_history_says_who_began_and_who_ended_a_window(server: Server) -> None:
    obj = {**queue("q"), "spec": {**queue("q")["spec"], **spec(NOON)}}
    answer = server.ask("/mutate/queues", obj, old=queue("q"), operation="UPDATE", user="alice")
    text = str(applied(answer.patch, obj)["metadata"]["annotations"]["sluice.dev/changes"])
    assert '"by":"alice","field":"inWindow","to":"noon Hold until 2030-01-01T14:00:00Z"' in text


def test_windows_that_may_not_be_are_refused_by_name(server: Server) -> None:
    wrong = {**queue("q"), "spec": {**queue("q")["spec"], **spec({**NOON, "schedule": "0 25 * * *"})}}
    answer = server.ask("/validate/queues", wrong, operation="CREATE")
    assert not answer.allowed
    assert answer.message.startswith('spec.windows[0].schedule of window "noon": hour 25 is not')


@each_case(
    "windows",
    [
        [NOON] * 10_000,
        [{**NOON, "schedule": "x" * 1_000_000}],
        [{**NOON, "name": f"w{n}", "schedule": "* * * * *", "duration": "744h"} for n in range(16)],
        "all",
        [None, 3, {}],
    ],
)
@with_new(server=Server)
def test_hostile_windows_are_answered_and_refused(server: Server, windows: Any) -> None:
    """The mutating webhook comes before the definition's limits."""
    overrides = [{**SKIP, "start": f"2030-01-01T11:{minute}"} for minute in range(10, 60)] * 100
    wrong = {"windows": windows, "windowOverrides": overrides, "inWindow": [ON] * 10_000}
    stored, _ = edited(server, {}, wrong)
    assert len(stored.get("inWindow") or ()) <= 16
    obj = {**queue("q"), "spec": {**queue("q")["spec"], **stored}}
    assert not server.ask("/validate/queues", obj, operation="CREATE").allowed


@each_case(("user", "is_taken"), [(OWN, True), ("mallory", False)])
@with_new(server=Server)
def test_an_edge_that_the_leader_writes_stays_as_it_is_written(
    server: Server, user: str, is_taken: bool
) -> None:
    """As far as an older configuration asks about it. Nobody else's is taken for one."""
    before = queue("q", windows=[NOON])
    edge = queue("q", windows=[NOON], inWindow=[ON], annotations={"sluice.dev/changes": "as it is"})
    options = {"apiVersion": "meta.k8s.io/v1", "kind": "PatchOptions", "fieldManager": "sluice-windows"}
    answer = server.ask("/mutate/queues", edge, old=before, operation="UPDATE", user=user, options=options)
    assert answer.allowed
    assert (not answer.patch) is is_taken
