"""Random queues as a controller has left them, and random edits of them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kubectl_queue.objects.fields import Object, name_of
from tests.support.plugin.harness import item, snapshot

NAMES = ("root", "a", "b", "c")


def pods(pending: int) -> dict[str, Any]:
    return {"pods": {"pending": pending, "running": 0}, "state": "Open", "observedGeneration": 1}


WINDOW = {
    "name": "nightly",
    "schedule": "0 2 * * *",
    "duration": "14h",
    "timeZone": "Europe/Berlin",
    "stopPolicy": "Hold",
}
IN_WINDOW = {"name": "nightly", "start": "2030-01-01T01:00:00Z", "until": "2030-01-01T23:30:00Z"}
#: What stops a queue, in place of what did so before; None: without the field.
STOPS: list[dict[str, Any]] = [
    {"state": state, "stopPolicy": policy, "windows": windows, "inWindow": on}
    for state, policy, windows, on in [
        (None, None, None, None),
        ("Suspended", None, None, None),
        ("Closed", None, None, None),
        (None, "Hold", None, None),
        (None, "HoldAndDrain", None, None),
        (None, None, [WINDOW], None),
        (None, None, [WINDOW], [IN_WINDOW]),
        (None, None, [WINDOW], [{**IN_WINDOW, "until": "2030-01-01T23:00:00Z"}]),
        (None, None, None, [IN_WINDOW]),
        (None, None, [{**WINDOW, "reason": "racks"}], [IN_WINDOW]),
        (None, None, [{**WINDOW, "timeZone": "UTC"}], [{**IN_WINDOW, "until": "2030-01-02T04:00:00Z"}]),
    ]
]
#: Other fields, each as it may be.
FIELDS: dict[str, list[Any]] = {
    "parent": [*NAMES, "missing"],
    "reason": ["", "audit"],
    "resumeAt": ["2030-01-01T12:15:00Z", "2030-01-02T00:00:00Z"],
    "weight": [1, 2],
    "namespaceSelector": [{"matchLabels": {"team": "a"}}],
}
random_stops = st.sampled_from(STOPS)
random_fields = st.sampled_from(sorted(FIELDS)).flatmap(
    lambda key: st.sampled_from([*FIELDS[key], None]).map(lambda value: {key: value})
)


def with_fields(spec: dict[str, Any], *fields: dict[str, Any]) -> dict[str, Any]:
    whole = {key: value for each in (spec, *fields) for key, value in each.items()}
    return {key: value for key, value in whole.items() if value is not None}


def random_spec(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Of a queue that is where a tree can be."""
    place = st.sampled_from([*NAMES[: NAMES.index(name)], "root"]).map(lambda parent: {"parent": parent})
    others = st.lists(random_fields, max_size=1).map(lambda given: given[0] if given else {})
    return st.builds(with_fields, st.just({}), others, random_stops, place)


random_farms = st.fixed_dictionaries({name: random_spec(name) for name in NAMES}).map(
    lambda specs: settled([item(name, **spec) for name, spec in specs.items()])
)


def settled(items: list[Object]) -> dict[str, Object]:
    """The queues once the controller has acknowledged each stop, for the specs as they are."""
    queues = snapshot(*items)
    found = {}
    for each in items:
        links = [
            {"name": link.name, "generation": link.generation} for link in queues.chain(name_of(each)).links
        ]
        stopped = {"type": "Active", "status": "False", "observedGeneration": 1}
        stop = {"scope": "s", "chain": links}
        found[name_of(each)] = {**each, "status": {**pods(1), "stop": stop, "conditions": [stopped]}}
    return found


#: What is done to a queue: its spec is edited, its pods are counted anew, it is deleted or made again.
random_edits = st.tuples(
    st.sampled_from(NAMES),
    random_stops | random_stops | random_fields | random_fields | st.sampled_from([3, "delete", "make"]),
)


def edited(items: dict[str, Object], name: str, what: Any) -> dict[str, Object]:
    before = items.get(name)
    if what == "delete":
        return {each: value for each, value in items.items() if each != name}
    if before is None or what == "make":
        return {**items, name: item(name, status=pods(2))}
    if isinstance(what, int):
        return {**items, name: {**before, "status": {**before["status"], **pods(what)}}}
    generation = before["metadata"]["generation"] + 1
    metadata = {**before["metadata"], "generation": generation}
    return {**items, name: {**before, "metadata": metadata, "spec": with_fields(before["spec"], what)}}
