"""The client against a real API server: what it answers, what it raises, and for how long it waits."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from pathlib import Path

import pytest
import yaml

from cluster.api import configuration
from cluster.api.client import Client
from cluster.api.configuration import load_configuration
from cluster.exceptions import (
    ClusterError,
    ConfigurationError,
    Conflict,
    Expired,
    NotFound,
    Overloaded,
    Refused,
    Unreachable,
)
from localcluster.cluster import LocalCluster
from tests.support.cluster.notes import body, eventually, path
from tests.support.e2e.wait import PATIENCE
from tests.support.faults.faulty_proxy import (
    Answer,
    Cut,
    Fault,
    FaultyProxy,
    Silence,
    status,
)


def test_what_is_created_is_read_changed_and_deleted(client: Client, namespace: str) -> None:
    client.create(path(namespace), body("a"))
    assert b'"n":"0"' in client.get(path(namespace, "a"))
    assert b'"n":"1"' in client.patch(path(namespace, "a"), {"data": {"n": "1"}})
    client.delete(path(namespace, "a"))
    with pytest.raises(NotFound, match='configmaps "a" not found'):
        client.get(path(namespace, "a"))


def test_what_is_there_already_is_a_conflict(client: Client, namespace: str) -> None:
    client.create(path(namespace), body("a"))
    with pytest.raises(Conflict) as raised:
        client.create(path(namespace), body("a"))
    assert (raised.value.status, raised.value.reason) == (409, "AlreadyExists")


def test_a_version_that_was_overtaken_is_a_conflict(client: Client, namespace: str) -> None:
    client.create(path(namespace), body("a"))
    with pytest.raises(Conflict):
        client.patch(path(namespace, "a"), {"metadata": {"resourceVersion": "1"}, "data": {"n": "1"}})


def test_a_dry_run_changes_nothing(client: Client, namespace: str) -> None:
    client.create(path(namespace), body("a"), dryRun="All")
    with pytest.raises(NotFound):
        client.get(path(namespace, "a"))


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (status(400), Refused),
        (status(401), Refused),
        (status(403), Refused),
        (status(404), NotFound),
        (status(409), Conflict),
        (status(410), Expired),
        (status(422), Refused),
        (status(429), Overloaded),
        (status(500), Overloaded),
        (status(504), Overloaded),
        (Answer(302, b"", {"Location": "http://127.0.0.1:1/"}), Refused),
        (Answer(503, b"<html>", {"Content-Type": "text/html"}), Overloaded),
        (Answer(403, b'{"message": 5}'), Refused),
        (Answer(404, b"\xff"), NotFound),
        (Answer(500, b"[" * 100_000), Overloaded),
        (Answer(200, b"", {"Content-Length": "10"}), Unreachable),
        (Answer(200, b"nonsense", {"Content-Encoding": "gzip"}), Unreachable),
        (Answer(500, b"nonsense", {"Content-Encoding": "gzip"}), Overloaded),
        (status(404, Date="yesterday"), NotFound),
        (status(404, Date="Fri, 99 Feb 2030 10:00:00 GMT"), NotFound),
        (status(404, Date="Fri, 01 Jan 2100 00:00:00 +99999999999999999999"), NotFound),
        (Answer(404, b'{"details":' + b"[" * 100_000), NotFound),
        (Cut(), Unreachable),
        (Cut(after=100), Unreachable),
        (Silence(), Unreachable),
        (Silence(after=500), Unreachable),
    ],
    ids=str,
)
def test_each_failure_is_one_of_the_tree(
    client: Client,
    proxy: FaultyProxy,
    fault: Fault,
    kind: type[ClusterError],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if isinstance(fault, Silence):  # all others are answered, however long that takes
        monkeypatch.setattr("cluster.api.client.READ_SECONDS", 0.3)
    if isinstance(fault, Answer) and fault.headers.get("Content-Length"):
        threading.Thread(target=cut_once_asked, args=[proxy]).start()  # a promise of more that is not kept
    proxy.order(fault)
    with pytest.raises(ClusterError) as raised:
        client.get("/api/v1/namespaces/kube-system")
    assert type(raised.value) is kind
    monkeypatch.undo()
    assert b"kube-system" in client.get("/api/v1/namespaces/kube-system"), "the next one is answered"


def cut_once_asked(proxy: FaultyProxy) -> None:
    """Reset the connection of the first request, once its answer has begun."""
    eventually(lambda: proxy.asked)
    proxy.cut()


def test_a_server_that_is_not_there_is_unreachable(client: Client, proxy: FaultyProxy) -> None:
    proxy.close()
    with pytest.raises(Unreachable):
        client.get("/api/v1/namespaces")


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("3600", 30.0),
        ("soon", 1.0),
        ("", 1.0),
        ("nan", 1.0),
        ("inf", 30.0),
    ],
)
def test_how_long_it_is_asked_to_wait(
    client: Client, proxy: FaultyProxy, header: str, seconds: float
) -> None:
    proxy.order(status(429, Retry_After=header))
    with pytest.raises(Overloaded) as raised:
        client.get("/api/v1/namespaces")
    assert raised.value.retry_after == seconds


def test_it_tells_how_far_the_api_servers_clock_is_ahead(client: Client, proxy: FaultyProxy) -> None:
    client.get("/api/v1/namespaces/kube-system")
    assert -20.0 < client.clock_skew < 1.0  # whole seconds, and as old as the answer is when it is read
    proxy.order(status(404, Date="Fri, 01 Jan 2100 00:00:00 GMT"))
    with pytest.raises(NotFound):
        client.get("/api/v1/namespaces/kube-system")
    assert client.clock_skew > 1e9


def test_threads_may_share_it(client: Client) -> None:
    failures: list[Exception] = []

    def ask() -> None:
        try:
            for _ in range(20):
                assert b"kube-system" in client.get("/api/v1/namespaces/kube-system")
        except Exception as exc:
            failures.append(exc)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert failures == []


def test_a_line_that_is_cut_from_another_thread_ends_its_stream(client: Client, namespace: str) -> None:
    line = client.interruptible()
    stream = line.stream(path(namespace), query={"watch": "true", "timeoutSeconds": 60}, read_seconds=60)
    threading.Timer(0.3, line.interrupt).start()
    began = time.monotonic()
    with contextlib.suppress(Unreachable):
        list(stream.lines())
    assert time.monotonic() - began < 30
    stream.release()


# Who we are


def whoami(client: Client) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = json.loads(client.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", body))
    name: str = answer["status"]["userInfo"]["username"]
    return name


@pytest.fixture
def token(cluster: LocalCluster, namespace: str) -> str:
    """Of the service account `default` of the namespace, which kube-controller-manager creates."""
    account = ("serviceaccount/default", "--namespace", namespace, f"--timeout={PATIENCE:.0f}s")
    cluster.kubectl("wait", "--for=create", *account)
    return cluster.kubectl("create", "token", "default", "--namespace", namespace).strip()


def test_a_token_in_the_kubeconfig_says_who_we_are(
    cluster: LocalCluster, namespace: str, token: str, tmp_path: Path
) -> None:
    server = {
        "server": cluster.ports.apiserver_url,
        "certificate-authority": str(cluster.layout.pki / "ca.crt"),
    }
    file = tmp_path / "kubeconfig"
    file.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "a", "cluster": server}],
                "users": [{"name": "a", "user": {"token": token}}],
                "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
                "current-context": "a",
            }
        )
    )
    assert whoami(Client(load_configuration(str(file)))) == f"system:serviceaccount:{namespace}:default"


def test_in_a_pod_its_service_account_says_who_we_are(
    cluster: LocalCluster, namespace: str, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a pod finds in its file system, in another place."""
    (tmp_path / "token").write_text(token)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(cluster.ports.apiserver))
    (tmp_path / "ca.crt").write_bytes((cluster.layout.pki / "ca.crt").read_bytes())
    monkeypatch.setattr(configuration, "SERVICE_ACCOUNT", tmp_path)
    assert whoami(Client(load_configuration())) == f"system:serviceaccount:{namespace}:default"


# The environment and the kubeconfig


def test_the_environment_leads_a_client_with_its_own_authority_nowhere(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(cluster.layout.server_ca.read_bytes())
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, str(other))
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    found = Client(load_configuration(str(cluster.client_kubeconfig)))
    assert b"kube-system" in found.get("/api/v1/namespaces/kube-system")


def test_another_authoritys_server_is_not_spoken_to(cluster: LocalCluster) -> None:
    settings = load_configuration(str(cluster.client_kubeconfig))
    settings.ssl_ca_cert = str(cluster.layout.server_ca)
    with pytest.raises(Unreachable, match="certificate verify failed"):
        Client(settings).get("/api/v1/namespaces")


@pytest.mark.parametrize("content", ["", "[]", "{", "clusters: 5", "\x00", "a: b", "5"], ids=repr)
def test_a_kubeconfig_that_is_none_says_which(content: str, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(content)
    with pytest.raises(ConfigurationError, match=str(file)):
        load_configuration(str(file))


def test_a_kubeconfig_that_is_not_there_says_which(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="missing"):
        load_configuration(str(tmp_path / "missing"))
