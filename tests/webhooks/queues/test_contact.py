"""`/validate/queues`: annotation `sluice.dev/contact`, and the warnings that name it."""

from __future__ import annotations

from typing import Any

from queues.contacts import CONTACT_LIMIT
from queues.membership import VOLCANO_ANNOTATION
from queues.well_known import CONTACT
from tests.support.cases import each_case, with_new
from tests.support.http.asking import Said, Server
from tests.support.http.wire_objects import pod, queue


def edit(server: Server, before: str, after: str, **spec: Any) -> Said:
    was, wanted = (queue("q", annotations={CONTACT: each}, **spec) for each in (before, after))
    server.has(was)
    return server.ask("/validate/queues", wanted, old=was, operation="UPDATE")


@each_case("contact", ["one\ntwo", "a\x1b[31m", "x" * 10_000, "a; b", "  ", "a\u202eb"])
@with_new(server=Server)
def test_a_contact_that_is_no_short_line_is_refused(server: Server, contact: str) -> None:
    for said in (
        server.ask("/validate/queues", queue("new", annotations={CONTACT: contact})),
        edit(server, "Ann", contact),
    ):
        assert (said.allowed, said.code) == (False, 422)
        assert said.message.startswith(f"metadata.annotations[{CONTACT}]: it ")
        assert len(said.message) < 200


@each_case("contact", ["ML platform", "https://example.com/queues", "x" * CONTACT_LIMIT, ""])
@with_new(server=Server)
def test_a_short_line_is_taken(server: Server, contact: str) -> None:
    assert server.ask("/validate/queues", queue("new", annotations={CONTACT: contact})).allowed
    assert edit(server, "Ann", contact).allowed


def test_what_is_stored_hinders_no_other_edit_and_can_be_mended() -> None:
    server = Server()
    was = queue("q", annotations={CONTACT: "a\nb"})
    server.has(was)
    assert server.ask(
        "/validate/queues", queue("q", annotations={CONTACT: "a\nb"}, weight=3), old=was, operation="UPDATE"
    ).allowed
    assert edit(server, "a\nb", "Ann").allowed
    assert not edit(server, "a\nb", "a\nc").allowed


def test_the_warning_for_work_that_waits_names_the_contact() -> None:
    server = Server()
    server.has(
        queue("root", annotations={CONTACT: "Ann"}),
        queue("held", state="Suspended"),
        queue("own", state="Suspended", annotations={CONTACT: "#ml-queues"}),
    )
    for name, contact in (("held", "Ann"), ("own", "#ml-queues")):
        said = server.ask("/mutate/pods", pod("work", annotations={VOLCANO_ANNOTATION: name}))
        assert said.warnings == [f'queue "{name}" is Suspended: this waits; {contact} can resume it']
    said = server.ask("/mutate/pods", pod("work", annotations={VOLCANO_ANNOTATION: "missing"}))
    assert said.warnings == [
        'queue "missing" does not exist: this waits; name another queue, or have Ann create it'
    ]
