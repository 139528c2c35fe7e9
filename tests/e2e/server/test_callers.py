"""Only kube-scheduler and kube-apiserver are answered; what they show may change under way."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest

from certs import authority
from certs.authority import Authority
from localcluster.apiserver import Https, readiness_problem
from localcluster.cluster import LocalCluster
from localcluster.components import CALLERS
from localcluster.ports import LOOPBACK
from server.app import create_app
from tests.support.e2e.objects import pod_body
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import PATIENCE, until

FILTER, REVIEW = "/extender/filter", "/validate/binds"
ENDPOINTS = sorted(
    {(rule.rule, "POST" in (rule.methods or ())) for rule in create_app().url_map.iter_rules()}
)
#: Errors of a connection that kube-apiserver itself has closed.
CLOSED_BY_CALLER = ("use of closed network connection", "client connection lost", "force closed")
#: So long a caller may show its former pair: client-go reads the files anew after that
#: (cachingCertificateLoader in its transport package).
PAIR_SECONDS = 1.0
#: The certificate was refused: by TLS's own alert.
ALERT = 0


def server_answer(cluster: LocalCluster, path: str, *pair: Path, method: str = "POST") -> int:
    """The status, for a caller that shows this certificate and key, or none; `ALERT` for no answer.

    The server waits two seconds for a refused caller to read the alert. One that is slower finds its
    connection reset, and asks again.
    """
    context = ssl.create_default_context(cafile=str(cluster.layout.server_ca))
    if pair:
        certificate, key = pair
        context.load_cert_chain(certificate, key)

    def answered() -> int:
        try:
            with Https(port=cluster.ports.server, context=context) as client:
                return client.request(method, path, {} if method == "POST" else None).status
        except ssl.SSLError as exc:
            assert "ALERT" in str(exc)
            return ALERT

    return until(lambda: (answered(),), f"an answer to {method} {path}")[0]


def certificate(folder: Path, ca: Authority, name: str, *, days: float = 1) -> tuple[Path, Path]:
    return ca.client(name=name, now=datetime.now(UTC), validity=timedelta(days=days)).save(folder, stem="it")


@pytest.mark.parametrize(("path", "posted"), ENDPOINTS, ids=[path for path, _ in ENDPOINTS])
def test_an_anonymous_caller_is_answered_401(cluster: LocalCluster, path: str, *, posted: bool) -> None:
    assert server_answer(cluster, path, method="POST" if posted else "GET") == 401


def test_an_anonymous_call_opens_no_pass_and_learns_no_queue(sandbox: Sandbox) -> None:
    """It describes a pod that waits: such a call of the scheduler would be answered, and remembered."""
    cluster, queue = sandbox.cluster, sandbox.queue()
    (name,) = sandbox.pods("member", 1, queue, gated=True)
    pod = sandbox.read_pod(name)
    body = {"Pod": pod, "NodeNames": ["node-0"], "Nodes": None}
    handled = r'sluice_request_duration_seconds_count\{path="/extender/filter"\}'
    context = ssl.create_default_context(cafile=str(cluster.layout.server_ca))

    def is_not_handled() -> bool:
        """kube-scheduler may try what other tests have left: then it is asked again."""
        before = sandbox.counted(handled)
        with Https(port=cluster.ports.server, context=context) as stranger:
            refused = stranger.request("POST", FILTER, body)
        assert refused.status == 401
        assert queue.encode() not in refused.body
        return sandbox.counted(handled) == before

    until(is_not_handled, "a call after which none was handled")


def test_each_caller_may_call_what_is_its_own(cluster: LocalCluster) -> None:
    scheduler, api_server = map(cluster.layout.caller_certificate, ("kube-scheduler", "kube-apiserver"))
    assert [server_answer(cluster, path, *scheduler) for path in (FILTER, REVIEW)] == [400, 403]
    assert [server_answer(cluster, path, *api_server) for path in (FILTER, REVIEW)] == [403, 400]


def test_the_right_authority_and_a_wrong_name(cluster: LocalCluster, tmp_path: Path) -> None:
    pair = certificate(tmp_path, authority.load(cluster.layout.callers), "somebody")
    assert [server_answer(cluster, path, *pair) for path in (FILTER, REVIEW, "/metrics")] == [403] * 3


@pytest.mark.parametrize("name", CALLERS.values())
def test_a_certificate_that_has_expired(cluster: LocalCluster, tmp_path: Path, name: str) -> None:
    pair = certificate(tmp_path, authority.load(cluster.layout.callers), name, days=-0.001)
    assert server_answer(cluster, FILTER, *pair) == ALERT


@pytest.mark.parametrize("folder", ["pki", "server_certs"])
def test_the_authority_of_the_cluster_or_of_the_server_itself(
    cluster: LocalCluster, tmp_path: Path, folder: str
) -> None:
    """Neither issues certificates of callers here: a user of the cluster is none."""
    pair = certificate(tmp_path, authority.load(getattr(cluster.layout, folder)), "system:kube-scheduler")
    assert server_answer(cluster, FILTER, *pair) == ALERT


def test_probes_and_metrics_are_read_without_a_certificate(cluster: LocalCluster) -> None:
    port = cluster.ports.health
    for path in ("/healthz", "/readyz", "/metrics"):
        assert readiness_problem(port, path, context=None) is None
    assert "404" in (readiness_problem(port, FILTER, context=None) or "")


def test_who_reads_probes_and_metrics_learns_no_queue_and_no_pod(sandbox: Sandbox) -> None:
    """Everybody may read them, with one member that runs and one whose queue was stopped."""
    queues = [sandbox.queue("runs"), sandbox.queue("stopped")]
    sandbox.pod("bound-pod", queues[0]).must(201)
    sandbox.all_bound(["bound-pod"])
    sandbox.suspend(queues[1])
    sandbox.pod("parked-pod", queues[1]).must(201)
    texts = [
        fetch_plainly(sandbox.cluster.ports.health, path) for path in ("/healthz", "/readyz", "/metrics")
    ]
    assert "sluice_queues" in texts[-1]
    words = [*queues, sandbox.namespace, "bound-pod", "parked-pod"]
    assert [word for word in words for text in texts if word in text] == []


def test_certificates_and_their_authority_are_replaced_without_a_restart(
    served_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Members are created all the while. At the end only the new authority counts, and a member is bound.

    No call is refused. kube-apiserver closes its connections when it finds the new certificate, with the call
    that is under way on one of them.
    """
    cluster, layout = served_cluster, served_cluster.layout
    old, new = authority.load(layout.callers), authority.create(name="next", now=datetime.now(UTC))
    processes, sandbox = cluster.pids, Sandbox(cluster)
    sandbox.first_wishes()
    queue = sandbox.queue()
    newly = certificate(tmp_path, new, CALLERS["kube-scheduler"])
    formerly = certificate(tmp_path / "old", old, CALLERS["kube-scheduler"])
    with creating_members(cluster, sandbox.namespace, queue) as answers:
        trust(cluster, old, new)
        until(lambda: server_answer(cluster, FILTER, *newly) == 400, "the new authority to count")
        for stem, name in CALLERS.items():
            new.client(name=name, now=datetime.now(UTC)).save(layout.callers, stem=stem)
        written = time.monotonic()
        until(lambda: time.monotonic() - written > 3 * PAIR_SECONDS, "callers to show their new pairs")
        trust(cluster, new)
        until(lambda: server_answer(cluster, FILTER, *formerly) == ALERT, "the old one to count no more")
        seen = len(answers)
        until(lambda: len(answers) > seen + 20, "members after it")
    (name,) = sandbox.pods("member", 1, queue)
    until(lambda: sandbox.bound([name]), "the member to be bound")
    sandbox.close()
    failed = [str(answer) for answer in answers if answer != 201]
    assert [answer for answer in failed if not any(word in answer for word in CLOSED_BY_CALLER)] == []
    assert len(failed) <= 2
    assert cluster.pids == processes


def fetch_plainly(port: int, path: str) -> str:
    connection = HTTPConnection(LOOPBACK, port, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def trust(cluster: LocalCluster, *authorities: Authority) -> None:
    bundle = b"".join(each.certificate for each in authorities)
    authority.write(cluster.layout.caller_authorities, bundle, mode=0o644)


@contextmanager
def creating_members(cluster: LocalCluster, namespace: str, queue: str) -> Iterator[list[int | str]]:
    """Create members (as dry runs: the webhooks are called all the same), one after another.

    Gives the status of each, or what is wrong.
    """
    answers: list[int | str] = []
    stop = threading.Event()
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"

    def create() -> None:
        with cluster.api() as api:
            while not stop.wait(0.01):
                try:
                    reply = api.request("POST", path, pod_body("dry", queue))
                except (OSError, HTTPException) as exc:
                    answers.append(str(exc))
                else:
                    answers.append(201 if reply.status == 201 else reply.body.decode())

    thread = threading.Thread(target=create, name="creating-members")
    thread.start()
    try:
        yield answers
    finally:
        stop.set()
        thread.join()
