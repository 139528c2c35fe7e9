"""Two of the server's own objects are damaged, and the leader is killed in between: all is well again once
they are mended, without a restart.

What is said and withdrawn meanwhile has tests of its own: of webhooks `acknowledgement/test_not_asked.py`, of
the book `quota/test_book_by_hand.py`, of Leases `replicas/test_leases_by_hand.py`, of definitions
`test_foreign_definitions.py`. On a cluster of their own.
"""

from __future__ import annotations

import base64
import random
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from controller.quota.book_writes import NAME as BOOK
from localcluster.cluster import LocalCluster
from localcluster.components import NAMESPACE
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import condition, is_stopped
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.unregistered import REGISTRATIONS
from tests.support.e2e.wait import until
from tests.support.examples import scaled
from tests.support.plugin.harness import plugin_in_process

pytestmark = pytest.mark.long

ROUNDS = scaled(4)
CORE = f"/api/v1/namespaces/{NAMESPACE}"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
FINALIZER = "example.com/kept"
Damage = Callable[[Sandbox, str, Object], object]


def deleted(sandbox: Sandbox, path: str, _body: Object) -> None:
    sandbox.api.delete(path).must(200, 404)


def emptied(sandbox: Sandbox, path: str, _body: Object) -> None:
    empty: Object = {"webhooks": []} if path in REGISTRATIONS else {"data": None, "binaryData": None}
    sandbox.api.patch(path, {"spec": {"holderIdentity": None}} if LEASES in path else empty).must()


def filled_with_garbage(sandbox: Sandbox, path: str, body: Object) -> None:
    garbage: Mapping[str, Any]
    if path in REGISTRATIONS:
        garbage = {"webhooks": [{**each, "failurePolicy": "Ignore"} for each in body["webhooks"]]}
    elif LEASES in path:
        garbage = {"metadata": {"annotations": {"sluice.dev/seen": "\x00", "sluice.dev/expired": "never"}}}
    else:
        encoded = base64.b64encode(b"garbage").decode()
        text = encoded if "/secrets/" in path else "garbage"
        garbage = {"data": dict.fromkeys(body.get("data") or {}, text)}
    sandbox.api.patch(path, dict(garbage)).must()


def left_behind(sandbox: Sandbox, path: str, _body: Object) -> None:
    sandbox.api.patch(path, {"metadata": {"finalizers": [FINALIZER]}}).must()
    sandbox.api.delete(path).must()


def made_immutable(sandbox: Sandbox, path: str, body: Object) -> None:
    takes_it = path.startswith(CORE)
    (sandbox.api.patch(path, {"immutable": True}).must() if takes_it else emptied(sandbox, path, body))


DAMAGES: tuple[Damage, ...] = (deleted, emptied, filled_with_garbage, left_behind, made_immutable)


@pytest.fixture
def sandbox(own_restored_sandbox: Sandbox) -> Sandbox:
    return own_restored_sandbox


def own_objects(sandbox: Sandbox) -> dict[str, Object]:
    """The server's own objects as they are, by their path."""
    found = {path: sandbox.api.get(path).must().body for path in REGISTRATIONS}
    for folder in (f"{CORE}/configmaps", f"{CORE}/secrets", LEASES):
        for item in sandbox.api.get(folder).must().body["items"]:
            name = item["metadata"]["name"]
            found |= {f"{folder}/{name}": item} if name.startswith("sluice") else {}
    return found


def mend(sandbox: Sandbox, path: str, body: Object) -> None:
    """As an admin does: what the server makes by itself is left to it."""
    if sandbox.api.get(path).status == 200:
        sandbox.api.patch(path, {"metadata": {"finalizers": None}}).must(200, 404)
    if LEASES in path or path.endswith(f"/{BOOK}"):
        return
    kept = {key: body["metadata"].get(key) for key in ("name", "labels", "annotations")}
    fresh = {**body, "metadata": {key: value for key, value in kept.items() if value}}
    sandbox.api.delete(path).must(200, 404)
    folder = path.rpartition("/")[0]

    def is_there() -> bool:
        """The server may have made it anew in between."""
        return sandbox.api.create(folder, fresh).status == 201 or not sandbox.api.delete(path).must(200, 404)

    until(is_there, f"{path} to be created anew")


def is_enforced(queue: Object) -> bool:
    return condition(queue, "QuotaEnforced").get("status") == "True"


def has_no_problem(cluster: LocalCluster) -> str:
    told = plugin_in_process("status", kubeconfig=cluster.layout.kubeconfig).stdout
    return told if "Problems:    none" in told else ""


@pytest.mark.parametrize("number", range(ROUNDS))
def test_all_is_well_once_what_was_damaged_is_mended(sandbox: Sandbox, number: int) -> None:
    chance, cluster, before = random.Random(number), sandbox.cluster, own_objects(sandbox)
    first, second = chance.sample(sorted(before), 2)
    chance.choice(DAMAGES)(sandbox, first, before[first])
    cluster.signal_component("server", signal.SIGKILL)
    if sandbox.api.get(second).status == 200:
        chance.choice(DAMAGES)(sandbox, second, before[second])
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(cluster.start_components, "server")
        for path in (first, second):
            mend(sandbox, path, before[path])
        starting.result()
    until(lambda: has_no_problem(cluster), "the server to have no problem")
    queue = sandbox.queue(capability={"pods": "1"})
    sandbox.pods("work", 1, queue)
    sandbox.all_bound(["work-0"])
    sandbox.queue_that(queue, "be enforced", is_enforced)
    sandbox.patch_queue(queue, state="Suspended").must()
    sandbox.queue_that(queue, "be stopped", is_stopped)
