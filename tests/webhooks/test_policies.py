"""`/validate/policies`: a text that is no policy is refused; queues that name what goes are named."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest

from cluster.inflight.queue_edits import SECONDS
from queues.policies.policy_set import GLOBAL_KEY
from tests.support.http.asking import Said, Server
from tests.support.http.wire_objects import policies, queue, review

PATH = "/validate/policies"
GOOD = "actions: allocate\ntiers: [{plugins: [{name: binpack}]}]"
BAD = "actions: allocate\ntiers:\n- plugins:\n  - nme: binpack\n"


def asked(
    after: dict[str, str] | None, before: dict[str, str] | None = None, *, server: Server | None = None
) -> Said:
    """The answer to a create, an update or a deletion of the ConfigMap."""
    request: dict[str, Any] = {"operation": "CREATE"}
    if before is not None:
        request = {"operation": "UPDATE" if after is not None else "DELETE", "old": policies(**before)}
    obj = policies(**after) if after is not None else None
    return (server or Server()).ask(PATH, obj, **request)


def test_good_policies_are_taken_without_a_word() -> None:
    assert asked({"common": GOOD, "packed": GOOD}) == Said(True, 200, "", [], [])


@pytest.mark.parametrize("before", [None, {}, {"packed": GOOD}, {"packed": BAD + " "}], ids=str)
def test_a_text_that_is_no_policy_is_refused_with_its_place(before: dict[str, str] | None) -> None:
    answer = asked({"packed": BAD}, before)
    assert (answer.allowed, answer.code) == (False, 422)
    assert answer.message == 'key "packed", line 4: a plugin has no name; write "- name: binpack"'


def test_a_faulty_configmap_can_be_corrected_key_by_key_and_labelled() -> None:
    before = {"a": BAD, "b": BAD}
    assert asked({"a": GOOD, "b": BAD}, before).allowed
    assert asked(before, before).allowed
    assert asked(None, before).allowed


def test_what_a_policy_says_in_vain_is_warned_of() -> None:
    [warning] = asked({"packed": GOOD + "\nqueues: 1"}).warnings
    assert warning.startswith('key "packed", line 3: a policy has no field "queues"; it is ignored')


def test_names_that_are_not_known_are_passed_over_with_a_warning_for_all_of_them() -> None:
    """And one for what is known and does nothing; the policy counts."""
    names = ", ".join(f"{{name: acme-{number}}}" for number in range(9))
    text = f"actions: allocate, elect\ntiers: [{{plugins: [{names}, {{name: sla}}, {{name: drf}}]}}]"
    assert asked({"packed": text}).warnings == [
        'key "packed", action elect and plugins acme-0, acme-1, acme-2, acme-3, acme-4 and 4 more are not '
        "known "
        "here and passed over",
        'key "packed", plugins sla, drf do nothing here',
    ]
    server = Server().has(policies(packed=text), queue("a", schedulerPolicy="packed"))
    assert server.store.policies.of_queue(server.store.snapshot, "a").problems == ()


OTHERS = {f"other-{number}.properties": "a=b\n[c\n" for number in range(500)}


def test_a_key_that_holds_no_policy_is_somebody_elses() -> None:
    """Whatever is in it, and however many there are; unless a queue names it."""
    assert asked({"packed": GOOD, **OTHERS}) == Said(True, 200, "", [], [])
    assert asked({"packed": GOOD, **OTHERS}, {"packed": GOOD}) == Said(True, 200, "", [], [])
    server = Server().has(queue("research", schedulerPolicy="other-7.properties"))
    [warning] = asked(OTHERS, {}, server=server).warnings
    assert warning == (
        'key "other-7.properties", which queue "research" names, holds no policy: it has neither actions nor '
        "tiers"
    )
    server.has(policies(**OTHERS))
    [warning] = warned(server, queue("web", schedulerPolicy="other-8.properties"))
    assert 'key "other-8.properties" holds no policy' in warning
    assert asked({"packed": "a: b"}, {"packed": GOOD}).message == (
        'key "packed", line 1: actions is missing; write actions: "enqueue, allocate, backfill"'
    )


def test_a_policy_in_binary_data_is_read_as_any() -> None:
    texts = {"packed": BAD, "x": "a=b"}
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    answer = Server().ask(PATH, {**policies(), "binaryData": encoded})
    assert answer.message == 'key "packed", line 4: a plugin has no name; write "- name: binpack"'
    picture = {"volcano-scheduler.conf": base64.b64encode(b"\x1f\x8b\x08\x00\xff").decode()}
    assert "not YAML" in Server().ask(PATH, {**policies(), "binaryData": picture}).message
    good = {"packed": base64.b64encode(GOOD.encode()).decode()}
    server = Server().has({**policies(), "binaryData": good})
    assert warned(server, queue("research", schedulerPolicy="packed")) == []


def test_a_global_policy_under_the_key_of_another_distribution_is_named() -> None:
    [warning] = asked({"default-scheduler.conf": GOOD, "packed": GOOD}).warnings
    assert warning.startswith("no policy counts for queues that name none: ")
    assert warning.endswith('the one under "default-scheduler.conf" counts only for queues that name it')
    assert asked({"default-scheduler.conf": GOOD, GLOBAL_KEY: GOOD}).warnings == []


def test_queues_that_name_what_goes_are_named() -> None:
    server = Server().has(queue("research", schedulerPolicy="packed"), queue("web"))
    [removed] = asked({}, {"packed": GOOD}, server=server).warnings
    assert removed.startswith('policy "packed" goes, which queue "research" names')
    [deleted] = asked(None, {"packed": GOOD}, server=server).warnings
    assert deleted.startswith('queue "research" names policies of this ConfigMap')
    assert asked({"packed": GOOD}, {"packed": GOOD, "other": GOOD}, server=server).warnings == []


@pytest.mark.parametrize("data", [{"a": 1}, {"a": None}, {"a": []}, [], "x"], ids=str)
def test_data_of_the_wrong_shape_is_refused(data: object) -> None:
    answer = Server().ask(PATH, {**policies(), "data": data})
    assert (answer.allowed, answer.code) == (False, 422)
    assert "data" in answer.message


@pytest.mark.parametrize("data", [None, {}], ids=str)
def test_a_configmap_without_data_is_taken(data: object) -> None:
    assert Server().ask(PATH, {**policies(), "data": data}).allowed


@pytest.mark.parametrize(
    "text",
    [
        "actions: x\na: &a [x, x]\n" + "".join(f"b{i}: &b{i} [*a, *a, *a, *a]\n" for i in range(2000)),
        "actions: allocate\ntiers:\n" + "- plugins: []\n" * 60_000,
        "actions: x\nb: " + "[" * 1_000_000,
        "actions: \x00" + "\x00" * 1000,
        "actions: x\n" + "a: .nan\n" * 10_000,
        "actions: allocate\ntiers:\n- plugins:\n" + "  - name: acme\n" * 10_000,
        "actions: allocate\ntiers:\n\t- plugins: []\n" + "# \n" * 10_000,
        "a: &a {b: c}\nactions: allocate\ntiers: [" + "{<<: *a}, " * 4_000 + "]",
    ],
    ids=[
        "alias bomb",
        "a million characters of tiers",
        "deep",
        "no text",
        "the same key",
        "ten thousand plugins",
        "tabs",
        "merge keys",
    ],
)
def test_hostile_texts_at_the_size_of_a_configmap_are_answered_soon(text: str) -> None:
    """Through the app, twice in one review as an update has them: within the limit of a body."""
    server, data = Server(), {"packed": text, **{f"k{number}": "actions: x" for number in range(900)}}
    body = review(policies(**data), operation="UPDATE", old=policies(**{"packed": text + " "}))
    started = time.process_time()
    response = server.post(PATH, body)
    assert time.process_time() - started < 4
    assert response.status_code == 200
    answer = json.loads(response.data)["response"]
    assert answer["allowed"] is False
    assert 'key "packed", line ' in answer["status"]["message"] or "more" in answer["status"]["message"]
    assert len(answer["status"]["message"]) <= 4096


def test_a_body_that_is_no_review_is_refused() -> None:
    server = Server()
    assert server.post(PATH, {"kind": "x"}).status_code == 400
    assert server.http.get(PATH).status_code == 405
    assert server.post(PATH, b"{}", content_type="text/plain").status_code == 415


# Queues that name a policy


def warned(server: Server, after: Any, before: Any = None) -> list[str]:
    more = {"operation": "UPDATE", "old": before} if before else {}
    answer = server.ask("/validate/queues", after, **more)
    assert answer.allowed, answer.message
    return answer.warnings


WAY_OUT = "; see: kubectl queue policy list"


def test_a_queue_that_names_a_policy_that_is_there_is_not_warned() -> None:
    server = Server().has(policies(packed=GOOD))
    assert warned(server, queue("research", schedulerPolicy="packed")) == []
    assert warned(server, queue("web")) == []


def test_a_queue_that_names_a_policy_that_is_not_there_is_warned_which_counts() -> None:
    server = Server()
    named = queue("research", schedulerPolicy="packed")
    nothing = 'spec.schedulerPolicy: no policy "packed" is known yet; '
    assert warned(server, named) == [nothing + "no policy counts" + WAY_OUT]
    server.has(policies(common=GOOD, spread=GOOD))
    assert warned(server, named) == [nothing + 'the global policy "volcano-scheduler.conf" counts' + WAY_OUT]
    server.has(queue("team", schedulerPolicy="spread"))
    below = queue("research", parent="team", schedulerPolicy="packed")
    then = 'policy "spread" counts, which the ancestor "team" names' + WAY_OUT
    assert warned(server, below) == [nothing + then]
    assert warned(server, below, queue("research", parent="team")) == [nothing + then]


NAMED = queue("research", schedulerPolicy="packed")


def admitted(*, dry_run: bool = False) -> Server:
    """A server that has admitted a ConfigMap with the policy, and has not seen it stored."""
    server = Server()
    assert server.ask(PATH, policies(packed=GOOD), dry_run=dry_run).allowed
    return server


def test_a_queue_of_the_same_manifest_as_its_policy_is_not_warned() -> None:
    """It comes a few milliseconds after the ConfigMap, and maybe before the watch has brought that."""
    assert warned(admitted(), NAMED) == []
    [other] = warned(admitted(), queue("research", schedulerPolicy="spread"))
    assert 'no policy "spread" is known yet' in other


def test_a_queue_that_names_the_global_policy_is_warned_at_any_time() -> None:
    server = Server()
    assert server.ask(PATH, policies(common=GOOD)).allowed
    [warning] = warned(server, queue("research", schedulerPolicy=GLOBAL_KEY))
    assert f'there is no policy "{GLOBAL_KEY}"' in warning


def test_a_policy_that_was_admitted_and_is_not_stored_is_forgotten() -> None:
    assert warned(admitted(dry_run=True), NAMED) != []
    server = admitted()
    server.clock.seconds += SECONDS
    assert warned(server, NAMED) != []


def test_the_latest_admitted_policies_count() -> None:
    server = admitted()
    assert server.ask(PATH, policies(packed=BAD), operation="UPDATE", old=policies(packed=GOOD)).code == 422
    assert warned(server, NAMED) == []
    assert server.ask(PATH, None, operation="DELETE", old=policies(packed=GOOD)).allowed
    assert warned(server, NAMED) != []


def test_what_is_stored_counts_as_soon_as_it_is_seen() -> None:
    server = admitted().has(policies(packed=GOOD))
    assert warned(server, NAMED) == []
    server.has(policies(spread=GOOD))  # edited while no webhook was registered
    assert warned(server, NAMED) != []


def test_an_edit_of_another_field_brings_no_warning() -> None:
    before = queue("research", schedulerPolicy="packed")
    assert warned(Server(), queue("research", schedulerPolicy="packed", reason="x"), before) == []


def test_a_queue_that_names_a_policy_with_a_wrong_text_is_warned() -> None:
    server = Server().has(policies(packed=BAD))
    [warning] = warned(server, queue("research", schedulerPolicy="packed"))
    assert warning.startswith('spec.schedulerPolicy: policy "packed", line 4: a plugin has no name')
    assert warning.endswith("; no policy counts")


def test_a_long_name_is_cut_and_what_counts_stays() -> None:
    [warning] = warned(Server(), queue("research", schedulerPolicy="p" * 253))
    assert warning.endswith("; no policy counts" + WAY_OUT)
    assert len(warning) <= 250
