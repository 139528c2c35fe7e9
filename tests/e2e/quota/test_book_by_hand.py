"""Whatever somebody does to the book, or to a pod in it: what waits goes on being released, within the
capability.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from controller.quota.book_writes import KEY, NAME
from queues.quota.book import MAX_INTENTS, Book, encode, parse
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import GATE, on_a_node
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import settled, until
from tests.support.faults.slow_webhook import SlowWebhook
from tests.support.plugin.harness import plugin_in_process

PATH = f"/api/v1/namespaces/sluice-system/configmaps/{NAME}"
#: As much as a ConfigMap takes.
MOST = 1024 * 1024
#: Under the very key of the book: a write of it alone is refused.
IN_BINARY_DATA = {"data": None, "binaryData": {KEY: "/////w=="}}
TOO_MANY = "\n".join((encode(Book(term=7)), *(f"={uuid4()} 1" for _ in range(MAX_INTENTS + 1))))


def edited(sandbox: Sandbox, **data: str | None) -> None:
    sandbox.api.patch(PATH, {"data": data}).must()


def filled(sandbox: Sandbox) -> None:
    """Beside the book, so that it has no room to grow."""
    book = sandbox.api.get(PATH).must().body["data"][KEY]
    binary = base64.b64encode(b"x" * 1024).decode()
    sandbox.api.patch(
        PATH, {"data": {"a": "x" * (MOST - 1024 - len(book))}, "binaryData": {"b": binary}}
    ).must()


def left_behind(sandbox: Sandbox) -> None:
    sandbox.api.patch(PATH, {"immutable": True, "metadata": {"finalizers": ["example.com/kept"]}}).must()
    sandbox.api.delete(PATH).must()


EDITS: dict[str, Callable[[Sandbox], object]] = {
    "deleted": lambda sandbox: sandbox.api.delete(PATH).must(),
    "emptied": lambda sandbox: edited(sandbox, **{KEY: None}),
    "of another version": lambda sandbox: edited(sandbox, **{KEY: "2 7\n{}"}),
    "of unknown pods": lambda sandbox: edited(
        sandbox, **{KEY: encode(Book(term=7, intents={str(uuid4()): 7}))}
    ),
    "of too many pods": lambda sandbox: edited(sandbox, **{KEY: TOO_MANY}),
    "of the greatest term": lambda sandbox: edited(sandbox, **{KEY: encode(Book(term=10**19 - 1))}),
    "as large as it can be": lambda sandbox: edited(sandbox, **{KEY: "x" * MOST}),
    "without room": filled,
    "in binaryData": lambda sandbox: sandbox.api.patch(PATH, IN_BINARY_DATA).must(),
    "immutable, with a finalizer, and deleted": left_behind,
    "immutable": lambda sandbox: sandbox.api.patch(PATH, {"immutable": True}).must(),
}


def running(sandbox: Sandbox) -> set[str]:
    return {name for name, pod in sandbox.read_pods().items() if on_a_node(pod)}


@pytest.mark.parametrize("edit", EDITS)
def test_what_waits_goes_on_being_released(sandbox: Sandbox, edit: str) -> None:
    queue = sandbox.queue(capability={"pods": "1"})
    sandbox.pods("work", 3, queue)
    [first] = until(lambda: running(sandbox), "a pod to run")
    EDITS[edit](sandbox)
    sandbox.api.delete(f"{sandbox.pods_path}/{first}").must()
    until(lambda: running(sandbox) - {first}, "the next pod to run")
    assert len(running(sandbox) - {first}) == 1
    book = sandbox.api.get(PATH).must().body
    assert (list(book["data"]), "binaryData" in book) == ([KEY], False)
    assert parse(book["data"][KEY]).term > 0


@contextmanager
def refused_by_a_policy(sandbox: Sandbox) -> Iterator[None]:
    """Writes of the book, by whomever."""
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
    name, rule = sandbox.named("no-book"), {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"]}
    matched = {"resourceRules": [{**rule, "resources": ["configmaps"], "resourceNames": [NAME]}]}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": matched,
        "validations": [{"expression": "false", "message": "no books here"}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    sandbox.api.create(f"{policies}ies", {"metadata": {"name": name}, "spec": spec}).must(201)
    sandbox.api.create(f"{policies}ybindings", {"metadata": {"name": name}, "spec": binding}).must(201)
    try:
        probe = {"metadata": {"annotations": {"a": "b"}}}
        until(lambda: sandbox.api.patch(f"{PATH}?dryRun=All", probe).status == 422, "the policy to be known")
        yield
    finally:
        sandbox.api.delete(f"{policies}ybindings/{name}").must()
        sandbox.api.delete(f"{policies}ies/{name}").must()


def test_a_book_that_a_policy_refuses_is_said_everywhere_until_it_is_mended(sandbox: Sandbox) -> None:
    """By the condition of each queue with a quota, by an event, by `why`, by the pods and by `status`."""
    above = sandbox.queue("above", capability={"pods": "1"})
    queue = sandbox.queue("below", parent=above)
    sandbox.pods("work", 2, queue)
    [first] = until(lambda: running(sandbox), "a pod to run")
    [other] = {"work-0", "work-1"} - {first}
    with refused_by_a_policy(sandbox):
        sandbox.api.delete(f"{sandbox.pods_path}/{first}").must()
        for name in (above, queue):
            found = sandbox.queue_that(
                name, "say so", lambda one: enforced(one)["reason"] == "BookNotWritten"
            )
            assert "no books here" in enforced(found)["message"]
        sandbox.event(above, "BookNotWritten", "no books here", namespace="default")
        text = "nothing is released, since the server cannot write its book of releases"
        sandbox.reason_on(other, text)
        assert "cannot write its book of releases" in by_plugin(sandbox, "why", f"pod/{other}")
        until(lambda: "quota-book of" in by_plugin(sandbox, "status"), "status to say so")
        assert running(sandbox) == set()
    until(lambda: running(sandbox) == {other}, "the other one to run")
    sandbox.queue_that(above, "hold again", lambda one: enforced(one)["reason"] == "Enforced")
    sandbox.queue_that(queue, "have no such condition", lambda one: not enforced(one)["reason"])


def by_plugin(sandbox: Sandbox, verb: str, *words: str) -> str:
    words = (*words, "-n", sandbox.namespace) if words else ()
    return plugin_in_process(verb, *words, kubeconfig=sandbox.cluster.client_kubeconfig).stdout


def enforced(queue: Object) -> Object:
    found = [one for one in queue["status"].get("conditions", []) if one["type"] == "QuotaEnforced"]
    return found[0] if found else {"reason": "", "message": ""}


@pytest.mark.parametrize("changed_to", ["", "other"], ids=["emptied", "changed"])
def test_a_label_that_is_changed_while_the_release_is_in_the_book(
    sandbox: Sandbox, tmp_path: Path, changed_to: str
) -> None:
    """By `kubectl label` it is refused, and the answer says why. By `pods/status`, which no webhook sees,
    it is put back, and an event says so. The release was of the version before: it is not stored. The room is
    not given twice meanwhile, and the pod goes in its turn.
    """
    queue = sandbox.queue(capability={"pods": "1"})
    written = sandbox.queue(changed_to, capability={"pods": "0"}) if changed_to else ""
    sandbox.pod("would-be", gated=True).must(201)
    dry, edit = f"{sandbox.pods_path}/would-be?dryRun=All", {"metadata": {"labels": {"a": "b"}}}
    with SlowWebhook(sandbox, tmp_path, seconds=60, resources=["pods"], operations=["UPDATE"]) as updates:
        until(lambda: updates.is_known(lambda: sandbox.api.patch(dry, edit)), "the webhook to be known")
        uid = sandbox.pod("work", queue).must(201).body["metadata"]["uid"]
        until(lambda: updates.held, "its release to be on its way")
        assert uid in parse(sandbox.api.get(PATH).must().body["data"][KEY]).intents
        sandbox.pod("rival", queue).must(201)
        by_hand = ("label", "--overwrite", "--dry-run=server", "pod/work", f"{GATE}={written}")
        said = sandbox.kubectl(*by_hand).stderr
        assert f'a pod\'s queue cannot be changed under it (it is "{queue}")' in said
        past_webhooks = {"metadata": {"labels": {GATE: written}}}
        sandbox.api.patch(f"{sandbox.pods_path}/work/status", past_webhooks).must()
        updates.let_go()
        [first] = until(lambda: running(sandbox), "one of the two to run")
        until(
            lambda: sandbox.read_pod("work")["metadata"]["labels"].get(GATE) == queue, "the label to be back"
        )
        sandbox.event("work", "QueueLabelRestored", queue)
        assert settled(lambda: running(sandbox), "the pods", seconds=1.0) == {first}
        sandbox.api.delete(f"{sandbox.pods_path}/{first}").must()
        until(lambda: running(sandbox) == {"work", "rival"} - {first}, "the other one to run")
