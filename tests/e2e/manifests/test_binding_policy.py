"""Nobody gives a pod another queue by way of a Binding, with or without our server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.manifests.bare_api import (
    REGISTRATIONS,
    Api,
    Reply,
    binding,
    eventually,
    pods,
)

pytestmark = pytest.mark.cluster

BINDINGS = "/api/v1/namespaces/default/bindings"
SCHEDULER = "system:kube-scheduler"
QUEUE = "sluice.dev/queue"


@pytest.fixture
def pod(api: Api) -> Iterator[str]:
    """A pod that nobody has bound; there is no scheduler of its name."""
    spec = {"schedulerName": "nobody", "containers": [{"name": "work", "image": "none"}]}
    body = {"kind": "Pod", "metadata": {"name": "unbound"}, "spec": spec}
    eventually(lambda: api.create(pods("default"), body).status in (201, 409))
    eventually(lambda: bind(api, labels={QUEUE: "x"}).status == 403)
    yield "unbound"
    api.delete(f"{pods('default', 'unbound')}?gracePeriodSeconds=0")


def bind(api: Api, *, old: bool = False, dry: bool = True, **metadata: Any) -> Reply:
    body = binding("unbound")
    body["metadata"] = {**body["metadata"], **metadata}
    path = BINDINGS if old else f"{pods('default', 'unbound')}/binding"
    return api.create(path, body, user=None if old else SCHEDULER, dry=dry)


def test_the_expressions_fit_a_binding(api: Api) -> None:
    """The API server has checked their types and has nothing to say."""
    path = f"{REGISTRATIONS}/validatingadmissionpolicies/sluice-bindings"
    eventually(lambda: "typeChecking" in api.get(path).body.get("status", {}))
    assert api.get(path).body["status"]["typeChecking"] == {}


@pytest.mark.parametrize("old", [False, True], ids=["pods/binding", "bindings"])
@pytest.mark.parametrize("value", ["other", ""])
def test_a_binding_with_the_label_of_a_queue_is_refused(api: Api, pod: str, *, old: bool, value: str) -> None:
    """By either endpoint, whoever binds; the refusal says which label."""
    reply = bind(api, old=old, labels={QUEUE: value, "app": "x"})
    assert reply.status == 403
    assert f"a Binding cannot have label {QUEUE}: it would be copied onto the pod" in reply.message


@pytest.mark.parametrize("old", [False, True], ids=["pods/binding", "bindings"])
@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"labels": {"topology.kubernetes.io/zone": "a"}, "annotations": {"app": "x"}},
        {"annotations": {QUEUE: "other"}},
    ],
    ids=str,
)
def test_every_other_binding_passes(api: Api, pod: str, *, old: bool, metadata: dict[str, Any]) -> None:
    """A scheduler's, which has neither, one with others' labels, and one with our annotation: that moves no
    pod, since the label says which queue it is in.
    """
    reply = bind(api, old=old, **metadata)
    assert reply.status == 201, reply.message


def test_a_bind_goes_through(api: Api, pod: str) -> None:
    """Not only as a dry run: the pod is on its node, and bears what the Binding bore."""
    assert bind(api, dry=False, annotations={"app": "x"}).status == 201
    found = api.get(pods("default", pod)).body
    assert found["spec"]["nodeName"] == "none"
    assert found["metadata"]["annotations"] == {"app": "x"}
