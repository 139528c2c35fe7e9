"""A user with `edit`."""

from __future__ import annotations

import pytest

from tests.support.e2e.sandbox import RBAC, Sandbox

MALLORY = "mallory"


@pytest.fixture
def mallory(sandbox: Sandbox) -> Sandbox:
    """The sandbox, in whose namespace mallory has `edit`."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": MALLORY}
    body = {"metadata": {"name": MALLORY}, "roleRef": role, "subjects": [subject]}
    sandbox.api.create(f"{RBAC}/namespaces/{sandbox.namespace}/rolebindings", body).must(201)
    sandbox.may(MALLORY, "create", "pods")
    sandbox.may(MALLORY, "create", "podgroups", "scheduling.volcano.sh")
    return sandbox
