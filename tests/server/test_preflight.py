"""The checks before the server writes anything: which rights it needs, and what of the cluster is a fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import yaml

from cluster.exceptions import Overloaded, Refused, Unreachable
from server import preflight
from server.preflight import PreflightFailed, Right, check, needed_rights
from server.settings import Settings
from tests.support.paths import ROOT

SETTINGS = Settings(ca_secret="sluice-ca")
#: Those of the roles without which the server works, as the table in the code says why.
OPTIONAL = {
    ("get", "", "persistentvolumeclaims"),
    ("list", "discovery.k8s.io", "endpointslices"),
    *((verb, "batch.volcano.sh", "jobs") for verb in ("get", "list", "watch", "patch")),
    *((verb, "jobset.x-k8s.io", "jobsets") for verb in ("get", "list", "watch", "patch")),
}


def granted(*, clusterwide: bool = False) -> set[Right]:
    """What manifests/rbac grants; `clusterwide`: the server's ClusterRole, but for what is optional."""
    roles = [
        role
        for path in (ROOT / "manifests" / "rbac").glob("*.yaml")
        for role in yaml.safe_load_all(path.read_text())
        if role.get("rules")
    ]
    return {
        Right(verb, group, resource, role["metadata"].get("namespace", ""), name)
        for role in roles
        for rule in role["rules"]
        for group in rule.get("apiGroups", ())
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
        if not clusterwide
        or (
            (role["kind"], role["metadata"]["name"]) == ("ClusterRole", "sluice")
            and (verb, group, resource) not in OPTIONAL
        )
    }


class ApiServer:
    """An API server of that version, by whose clock ours is that far behind; it allows some rights."""

    def __init__(
        self,
        *,
        version: str = "v1.30.0",
        skew: float = 0.0,
        may: Callable[[dict[str, Any]], bool] = lambda _: True,
    ) -> None:
        self.clock_skew = skew
        self._version = version
        self._may = may
        self.asked = 0

    def get(self, path: str) -> bytes:
        assert path == "/version"
        return msgspec.json.encode({"gitVersion": self._version})

    def create(self, path: str, body: dict[str, Any]) -> bytes:
        if path == preflight.RULES_REVIEWS:
            raise Refused(403, "Forbidden", "rules are not listed")
        self.asked += 1
        allowed = self._may(body["spec"]["resourceAttributes"])
        return msgspec.json.encode({"status": {"allowed": allowed}})


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "RIGHTS_SECONDS", 0.0)


def fault(server: Any) -> str:
    with pytest.raises(PreflightFailed) as failed:
        check(server, SETTINGS)
    return str(failed.value)


def test_the_rights_are_those_that_the_manifests_grant() -> None:
    """And each right of the server's ClusterRole is needed, but for those without which it works."""
    needed = {
        right._replace(namespace="") if right.name == SETTINGS.policies_name else right
        for right in needed_rights(SETTINGS)
    }
    assert needed <= granted()
    assert granted(clusterwide=True) <= needed


def test_with_a_given_certificate_no_right_to_secrets_or_webhooks_is_needed() -> None:
    rights = needed_rights(Settings(tls_dir="/tls"))
    kinds = {"secrets", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"}
    assert [right for right in rights if right.resource in kinds] == []


def test_a_cluster_that_grants_everything_is_fit() -> None:
    check(ApiServer(), SETTINGS)  # type: ignore[arg-type]


def test_a_missing_right_is_named_with_the_way_out() -> None:
    text = fault(
        ApiServer(may=lambda right: (right["resource"], right["subresource"]) != ("pods", "eviction"))
    )
    assert text == (
        "not started, and nothing was written: our service account may not create pods/eviction everywhere; "
        "apply them with: kubectl apply --server-side -k manifests/rbac"
    )


@pytest.mark.parametrize(("skew", "where"), [(3600.0, "60 minutes behind"), (-3600.0, "60 minutes ahead of")])
def test_a_clock_an_hour_off_is_named_with_its_direction(skew: float, where: str) -> None:
    assert f"the clock of this node is {where} the API server's" in fault(ApiServer(skew=skew))


def test_a_clock_some_minutes_off_is_no_fault() -> None:
    check(ApiServer(skew=600.0), SETTINGS)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", ["v1.29.14", "v1.9.0", "v1.29.3-gke.1282001"])
def test_an_older_kubernetes_is_named(version: str) -> None:
    assert f"of Kubernetes {version}; Sluice needs 1.30 or later" in fault(ApiServer(version=version))


@pytest.mark.parametrize("version", ["v1.30.14", "v1.33.5-eks-3025e55", "v2.0.0", "", "unknown"])
def test_a_newer_kubernetes_or_one_that_is_not_known_is_none(version: str) -> None:
    check(ApiServer(version=version), SETTINGS)  # type: ignore[arg-type]


def test_all_faults_are_named_together() -> None:
    text = fault(ApiServer(version="v1.29.0", skew=3600.0, may=lambda _: False))
    assert [word in text for word in ("v1.29.0", "60 minutes", "may not get queues")] == [True] * 3


@pytest.mark.parametrize(
    "error",
    [
        Unreachable("connection refused"),
        Overloaded(503, "ServiceUnavailable", "starting", retry_after=1.0),
        Refused(403, "", ""),
    ],
)
def test_an_api_server_that_does_not_answer_is_no_fault(error: Exception) -> None:
    class Silent(ApiServer):
        def get(self, path: str) -> bytes:
            raise error

    check(Silent(), SETTINGS)  # type: ignore[arg-type]


def test_a_certificate_that_is_not_valid_yet_names_the_clock() -> None:
    class Later(ApiServer):
        def get(self, path: str) -> bytes:
            raise Unreachable("certificate verify failed: certificate is not yet valid")

    assert "set the clock of this node" in fault(Later())
