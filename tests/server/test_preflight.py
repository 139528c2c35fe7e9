"""The checks before the server writes anything: which rights it needs, and what of the cluster is a fault."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from msgspec import structs

from cluster.exceptions import NotFound, Overloaded, Refused, Unreachable
from cluster.informers.crd_fields import PATH, REQUIRED
from queues.mode import Mode
from server import rights
from server.managed_selectors import BINDINGS, CONFIGURATIONS
from server.preflight import ClockWatch, PreflightFailed, check
from server.rights import Right, needed_rights, scheduler_rights
from server.settings import Settings
from tests.support import yaml_texts
from tests.support.paths import ROOT

SETTINGS = Settings(ca_secret="sluice-ca")
#: Those of the roles without which the server works, as the table in the code says why.
OPTIONAL = {
    ("get", "", "persistentvolumeclaims"),
    *(
        (verb, "resource.k8s.io", kind)
        for kind in ("resourceclaims", "deviceclasses")
        for verb in ("list", "watch")
    ),
    *((verb, "scheduling.k8s.io", "priorityclasses") for verb in ("list", "watch")),
    ("create", "scheduling.volcano.sh", "podgroups"),
    *((verb, "batch.volcano.sh", "jobs") for verb in ("get", "list", "watch", "patch")),
    *((verb, "jobset.x-k8s.io", "jobsets") for verb in ("get", "list", "watch", "patch")),
    *(
        (verb, "admissionregistration.k8s.io", kind)
        for kind in rights._WEBHOOKS
        for verb in ("get", "list", "watch")
    ),
    *(
        (verb, "admissionregistration.k8s.io", kind)
        for kind in ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
        for verb in ("list", "watch")
    ),
}


def granted(*, clusterwide: bool = False) -> set[Right]:
    """What manifests/rbac grants; `clusterwide`: the server's ClusterRole, but for what is optional."""
    roles = [
        role
        for path in (ROOT / "manifests" / "rbac").glob("*.yaml")
        for role in yaml_texts.load_all(path.read_text())
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


def read_definitions() -> dict[str, dict[str, Any]]:
    """Ours, by name."""
    documents = [
        yaml_texts.load((ROOT / "manifests" / "crds" / f"{name.partition('.')[0]}.yaml").read_text())
        for name in REQUIRED
    ]
    return {document["metadata"]["name"]: document for document in documents}


DEFINITIONS = read_definitions()


class ApiServer:
    """An API server of that version, by whose clock ours is that far behind; it allows some rights.

    `definitions`: those of our kinds, by name; None if they may not be read. `hooks`: the entries of the
    mutating webhook configuration; None if no configuration may be read.
    """

    def __init__(
        self,
        *,
        version: str = "v1.30.0",
        skew: float = 0.0,
        may: Callable[[dict[str, Any]], bool] = lambda _: True,
        definitions: Mapping[str, dict[str, Any]] | None = DEFINITIONS,
        hooks: Sequence[dict[str, Any]] | None = (),
    ) -> None:
        self._hooks = hooks
        self.clock_skew = skew
        self._definitions = definitions
        self._version = version
        self._may = may
        self.asked = 0

    def get(self, path: str, *, fieldSelector: str = "") -> bytes:  # noqa: N803 - as the API has it
        if path == PATH:
            if self._definitions is None:
                raise Refused(403, "Forbidden", "not yours")
            name = fieldSelector.removeprefix("metadata.name=")
            return msgspec.json.encode({"items": [d for n, d in self._definitions.items() if n == name]})
        if path == BINDINGS:
            return b'{"items": []}'
        if path in CONFIGURATIONS:
            if self._hooks is None:
                raise Refused(403, "Forbidden", "not yours")
            if path != CONFIGURATIONS[0]:
                raise NotFound(404, "NotFound", "not there yet")
            return msgspec.json.encode({"webhooks": self._hooks})
        assert path == "/version"
        return msgspec.json.encode({"gitVersion": self._version})

    def create(self, path: str, body: dict[str, Any]) -> bytes:
        if path == rights.RULES_REVIEWS:
            raise Refused(403, "Forbidden", "rules are not listed")
        self.asked += 1
        allowed = self._may(body["spec"]["resourceAttributes"])
        return msgspec.json.encode({"status": {"allowed": allowed}})


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights, "RIGHTS_SECONDS", 0.0)


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


def test_with_given_api_servers_no_right_to_their_addresses_is_needed() -> None:
    def needed(settings: Settings) -> set[str]:
        return {right.resource for right in needed_rights(settings)}

    assert needed(SETTINGS) - needed(
        Settings(ca_secret="sluice-ca", api_servers=("https://10.0.0.1:6443",))
    ) == {"endpointslices"}


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


@pytest.mark.parametrize(
    ("version", "mode", "warns"),
    [
        ("v1.30.14", Mode.EXTENDER, True),
        ("v1.31.14-gke.1", Mode.EXTENDER, True),
        ("v1.32.0", Mode.EXTENDER, False),
        ("v1.30.14", Mode.SCHEDULER, False),
        ("v1.30.14", Mode.GATE, False),
    ],
)
def test_a_scheduler_that_does_not_retry_members_for_nodes_is_warned_of(
    caplog: pytest.LogCaptureFixture, version: str, mode: Mode, *, warns: bool
) -> None:
    """Without the marker, as in the other modes, it does."""
    check(ApiServer(version=version), Settings(mode=mode.value))  # type: ignore[arg-type]
    assert ("--pod-max-in-unschedulable-pods-duration=30s" in caplog.text) == warns


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
        def get(self, path: str, *, fieldSelector: str = "") -> bytes:  # noqa: N803 - as the API has it
            raise error

    check(Silent(), SETTINGS)  # type: ignore[arg-type]


def test_a_certificate_that_is_not_valid_yet_names_the_clock() -> None:
    class Later(ApiServer):
        def get(self, path: str, *, fieldSelector: str = "") -> bytes:  # noqa: N803 - as the API has it
            raise Unreachable("certificate verify failed: certificate is not yet valid")

    assert "set the clock of this node" in fault(Later())


def without_field(*path: str) -> dict[str, dict[str, Any]]:
    """Our definitions, and that of queues as an older version had it: without one field."""
    older = copy.deepcopy(DEFINITIONS)
    at = older["queues.scheduling.volcano.sh"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in path[:-1]:
        at = at["properties"][name]
    del at["properties"][path[-1]]
    return older


@pytest.mark.parametrize(
    "path", [("spec", "parked"), ("status", "pods", "recreating"), ("status", "drain", "left")]
)
def test_a_definition_of_an_older_version_is_named_with_its_missing_field(path: tuple[str, ...]) -> None:
    assert fault(ApiServer(definitions=without_field(*path))) == (
        "not started, and nothing was written: the CustomResourceDefinition queues.scheduling.volcano.sh "
        f"lacks {'.'.join(path)}; apply ours again with: "
        "kubectl apply --server-side --force-conflicts -k manifests/crds"
    )


def test_webhooks_that_select_other_namespaces_are_named_and_end_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    narrowed = {"name": "pods.sluice.dev", "namespaceSelector": {"matchLabels": {"team": "a"}}}
    check(ApiServer(version="v1.36.0", hooks=[narrowed]), SETTINGS)  # type: ignore[arg-type]
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith("pods.sluice.dev of the webhooks: namespaces with team in (a); ")


def test_webhooks_that_may_not_be_read_are_not_compared(caplog: pytest.LogCaptureFixture) -> None:
    check(ApiServer(version="v1.36.0", hooks=None), SETTINGS)  # type: ignore[arg-type]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_definitions_that_are_not_there_are_named() -> None:
    text = fault(ApiServer(definitions={}))
    assert [f"the CustomResourceDefinition {name} is not there" in text for name in REQUIRED] == [True] * 3


def test_definitions_that_may_not_be_read_leave_it_to_the_rights_to_say_so() -> None:
    check(ApiServer(definitions=None), SETTINGS)  # type: ignore[arg-type]


def test_what_was_found_before_the_api_server_went_away_is_said() -> None:
    class Leaving(ApiServer):
        def create(self, path: str, body: dict[str, Any]) -> bytes:
            raise Unreachable("connection refused")

    assert "60 minutes" in fault(Leaving(skew=3600.0))


# Our own kube-scheduler


CONFIGURATION = ROOT / "manifests" / "ways" / "scheduler" / "scheduler-config.yaml"
WITH_SCHEDULER = Settings(ca_secret="sluice-ca", mode="scheduler", scheduler_config=str(CONFIGURATION))


def test_a_right_that_only_our_kube_scheduler_lacks_is_named_with_the_file_that_grants_it() -> None:
    server = ApiServer(may=lambda right: right["resource"] not in {"persistentvolumes", "csinodes"})
    check(server, SETTINGS)  # type: ignore[arg-type]
    with pytest.raises(PreflightFailed) as failed:
        check(server, WITH_SCHEDULER)  # type: ignore[arg-type]
    assert str(failed.value) == (
        "not started, and nothing was written: our own kube-scheduler has our service account, which may not "
        "list persistentvolumes everywhere, watch persistentvolumes everywhere, update persistentvolumes "
        "everywhere, list csinodes.storage.k8s.io everywhere, watch csinodes.storage.k8s.io everywhere; "
        "apply them with: kubectl apply --server-side -f manifests/ways/scheduler/rights.yaml"
    )


def test_its_lease_is_the_one_of_its_configuration() -> None:
    leases = [
        right for right in scheduler_rights(yaml_texts.load(CONFIGURATION.read_text())) if "leases" in right
    ]
    assert {(right.verb, right.namespace, right.name) for right in leases} == {
        ("get", "sluice-system", "sluice-scheduler"),
        ("update", "sluice-system", "sluice-scheduler"),
    }
    assert [
        right for right in scheduler_rights({"leaderElection": {"leaderElect": False}}) if "leases" in right
    ] == []


def test_rights_of_a_scheduler_with_credentials_of_its_own_are_not_ours_to_check(tmp_path: Path) -> None:
    """Unless they are the server's as well, or it does not run beside us."""
    server = ApiServer(may=lambda right: right["resource"] != "csinodes")
    for name, kubeconfig in (("own", "/scheduler/kubeconfig"), ("shared", str(CONFIGURATION))):
        content = {
            **yaml_texts.load(CONFIGURATION.read_text()),
            "clientConnection": {"kubeconfig": kubeconfig},
        }
        (tmp_path / name).write_text(yaml.safe_dump(content))
    own = structs.replace(WITH_SCHEDULER, scheduler_config=str(tmp_path / "own"))
    check(server, own)  # type: ignore[arg-type]
    check(server, structs.replace(WITH_SCHEDULER, mode="gate", scheduler_config=str(CONFIGURATION)))  # type: ignore[arg-type]
    shared = structs.replace(own, scheduler_config=str(tmp_path / "shared"), kubeconfig=str(CONFIGURATION))
    with pytest.raises(PreflightFailed, match=r"may not list csinodes"):
        check(server, shared)  # type: ignore[arg-type]


# A clock that goes wrong later


def test_a_clock_that_goes_wrong_later_is_logged_once_an_hour_and_when_it_is_right_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seconds = [0.0]
    watch = ClockWatch(clock=lambda: seconds[0])
    with caplog.at_level(logging.WARNING):
        for at, skew in [(0, 1.0), (1, 3600.0), (2, 3601.0), (3602, 3600.0), (3603, -5.0), (3604, 0.0)]:
            seconds[0] = float(at)
            watch.observe(skew)
    assert [(record.levelname, record.getMessage().partition(";")[0]) for record in caplog.records] == [
        *[("ERROR", "the clock of this node is 60 minutes behind the API server's")] * 2,
        ("WARNING", "the clock of this node is right again"),
    ]
