"""kubectl gets the user's flags; what it and the API server answer becomes an object or an error in words.

What needs a kubectl or an API server is in `tests/e2e/plugin/test_access_on_a_cluster.py`.
"""

from __future__ import annotations

import io
import json
from datetime import datetime
from email.message import Message
from types import SimpleNamespace
from typing import cast

import pytest

from kubectl_queue.access import kubectl, responses
from kubectl_queue.access.client import WEBHOOK_TRIES, ApiClient
from kubectl_queue.access.replicas import is_foreign, lease_end
from kubectl_queue.access.responses import ApiRequest, ApiResponse
from kubectl_queue.access.transport import Transport, unreachable
from kubectl_queue.cli.flags import parse
from kubectl_queue.cli.options import ACCESS, COMMON
from kubectl_queue.errors import (
    ConfigError,
    CredentialsError,
    KindMissingError,
    QueueError,
    ServerError,
    WebhookError,
)
from kubectl_queue.output.console import Console
from kubectl_queue.session import Session
from tests.support.cases import each_case
from tests.support.plugin.harness import NOW


def session(*words: str) -> Session:
    flags = parse(words, COMMON, command="kubectl queue test")
    return Session(flags, console=Console(io.StringIO(), io.StringIO()), environ={"PATH": "/nonexistent"})


def test_kubectl_is_given_the_flags_that_say_who_and_where() -> None:
    words = ("--context", "c", "--as=ed", "--as-group=g", "--as-group", "h", "--insecure-skip-tls-verify")
    given = session(*words, "-n", "lab", "--request-timeout=5s", "--token=").access_flags
    assert given == (
        "--context=c",
        "--token=",
        "--insecure-skip-tls-verify=true",
        "--as=ed",
        "--as-group=g",
        "--as-group=h",
    )


@each_case("flag", [flag for flag in ACCESS if not flag.bare], ids=lambda flag: flag.name)
def test_a_value_reaches_kubectl_as_it_is(flag: object) -> None:
    name = getattr(flag, "name", "")
    assert session(f"--{name}=a b=c").access_flags == (f"--{name}=a b=c",)


def test_without_kubectl_on_path_it_says_what_to_do() -> None:
    with (
        session() as unreached,
        pytest.raises(ConfigError, match=r"no kubectl is on PATH; install it \(https://"),
    ):
        _ = unreached.api


def test_the_flag_for_a_namespace_goes_before_the_context() -> None:
    assert session("-n", "lab").namespace == "lab"


def test_the_log_of_kubectl_is_left_out_and_what_a_login_asks_is_not() -> None:
    entry = b"E1122 16:23:42.795455    1868 proxy_server.go:147] Error while proxying request: a\nb\n"
    assert kubectl.without_log(b"Password: " + b"\n" + entry) == b"Password: \n"
    assert kubectl.without_log(entry) == b""
    assert kubectl.without_log(b"open https://login/E1122 now\n") == b"open https://login/E1122 now\n"


OUTCOME_UNKNOWN = "; whether it took the change is not known"


@each_case(
    ("cause", "text"),
    [
        (
            "dial tcp 10.0.0.1:443: connect: connection refused",
            "The connection to the server 10.0.0.1:443 was refused - did you specify the right host or port?",
        ),
        (
            "dial tcp [::1]:8080: connect: connection refused",
            "The connection to the server [::1]:8080 was refused - did you specify the right host or port?\n"
            "Where no API server is configured, this is the one that kubectl tries; set KUBECONFIG, or give "
            "--kubeconfig FILE, --context NAME or --server URL",
        ),
        (
            "dial tcp: lookup x: no such host",
            "Unable to connect to the server: dial tcp: lookup x: no such host; "
            "look at the server of the kubeconfig's cluster",
        ),
        (
            "http: server gave HTTP response to HTTPS client",
            "Unable to connect to the server: http: server gave HTTP response to HTTPS client; "
            "is it http:// or another port?",
        ),
        (
            "http2: client connection lost",
            f"Unable to connect to the server: http2: client connection lost{OUTCOME_UNKNOWN}",
        ),
        ("EOF", f"Unable to connect to the server: EOF{OUTCOME_UNKNOWN}"),
    ],
)
def test_what_kubectl_says_of_a_server_that_it_cannot_reach_is_said_with_what_to_look_at(
    cause: str, text: str
) -> None:
    """Of a change that may have been sent it is said that it may have been made."""
    assert str(unreachable(cause, if_sent=OUTCOME_UNKNOWN)) == text


def test_a_credential_plugin_that_fails_is_an_error_of_credentials() -> None:
    error = unreachable("getting credentials: exec: executable x failed with exit code 3\n\nget it from x")
    assert isinstance(error, CredentialsError)
    assert str(error).endswith("failed with exit code 3\n\nget it from x")


def answered(code: int, body: str, **headers: str) -> ApiResponse:
    message = Message()
    for name, value in headers.items():
        message[name] = value
    return ApiResponse(code, message, body.encode())


@each_case(
    ("code", "body", "said"),
    [
        (401, "{}", "error: You must be logged in to the server (Unauthorized); the credentials"),
        (
            403,
            '{"reason":"Forbidden","message":"User ed cannot list resource queues"}',
            "Error from server (Forbidden): User ed cannot list resource queues; ask an administrator",
        ),
        (
            404,
            '{"reason":"NotFound","message":"queues \\"b\\" not found","details":{"name":"b"}}',
            'Error from server (NotFound): queues "b" not found',
        ),
        (
            422,
            '{"reason":"Invalid","message":"m","details":{"kind":"Queue","name":"b","causes":'
            '[{"field":"spec.weight","message":"too small"}]}}',
            'The Queue "b" is invalid: spec.weight: too small',
        ),
        (422, '{"reason":"Invalid","message":"denied"}', "Error from server (Invalid): denied"),
        (400, "Client sent an HTTP request to an HTTPS server.\n", "Error from server: Client sent an HTTP"),
        (500, "", "Error from server: it answered 500 and no reason"),
        (
            400,
            '{"reason":"BadRequest","message":"x: strict decoding error: unknown field \\"spec.state\\""}',
            'unknown field "spec.state"; the definition of queues on this server is not this version\'s',
        ),
    ],
)
def test_refusals_are_in_kubectl_s_words(code: int, body: str, said: str) -> None:
    with pytest.raises(QueueError) as error:
        responses.read(answered(code, body))
    assert said in str(error.value)


def test_a_server_without_queues_is_told_from_a_queue_that_is_not_there() -> None:
    with pytest.raises(KindMissingError, match="kubectl apply --server-side -k manifests/crds"):
        responses.read(answered(404, "404 page not found\n"))


def test_warnings_are_unquoted() -> None:
    response = answered(200, "{}", Warning='299 - "say \\"hi\\"", 299 - "two"')
    assert responses.warnings(response.headers) == ['say "hi"', "two"]


TIMED_OUT = (
    'Internal error occurred: failed calling webhook "{name}": failed to call webhook: '
    'Post "https://sluice.sluice-system.svc:443/validate/queues?timeout=5s": {cause}'
)


def failure(cause: str = "context deadline exceeded", name: str = "queues.sluice.dev") -> ApiResponse:
    return answered(500, json.dumps({"message": TIMED_OUT.format(name=name, cause=cause)}))


@each_case(
    ("response", "webhook"),
    [
        (failure(), "queues.sluice.dev"),
        (failure("net/http: request canceled (Client.Timeout exceeded)"), "queues.sluice.dev"),
        (failure(name="mutate-queues.sluice.dev"), "mutate-queues.sluice.dev"),
        (failure("dial tcp 10.0.0.1:443: connect: connection refused"), ""),
        (failure(name="queues.example.com"), ""),
        (answered(403, failure().body.decode()), ""),
        (answered(500, "context deadline exceeded"), ""),
    ],
    ids=["its time", "the client's time", "another of ours", "refused", "not ours", "a denial", "no Status"],
)
def test_a_webhook_that_did_not_answer_in_time_is_told_from_other_failures(
    response: ApiResponse, webhook: str
) -> None:
    assert responses.silent_webhook(response) == webhook


@pytest.mark.parametrize(("failures", "succeeds"), [(0, True), (5, True), (6, False)])
def test_a_request_is_sent_again_where_a_webhook_did_not_answer(failures: int, succeeds: bool) -> None:
    """Each connection of the API server to a replica that is gone fails one request."""
    sent: list[ApiRequest] = []

    def send(request: ApiRequest) -> ApiResponse:
        sent.append(request)
        return failure() if len(sent) <= failures else answered(200, '{"kind":"Queue"}')

    notes: list[str] = []
    client = ApiClient(cast(Transport, SimpleNamespace(send=send)), warn=notes.append)
    request = ApiRequest(method="PATCH", path="/q", query={}, body=b"{}", content_type="application/json")
    if succeeds:
        assert client.send(request) == {"kind": "Queue"}
    else:
        with pytest.raises(QueueError, match="context deadline exceeded"):
            client.send(request)
    assert sent == [request] * min(failures + 1, WEBHOOK_TRIES)
    assert len(notes) == len(sent) - 1


@each_case(
    ("cause", "said"),
    [
        (
            "dial tcp 10.0.0.1:443: connect: connection refused",
            'no replica of Sluice answers since noon (webhook "queues.sluice.dev": dial tcp 10.0.0.1:443: '
            "connect: connection refused); what to do: docs/operating/outages.md",
        ),
        ("EOF", "no replica of Sluice answers since noon"),
        ("x509: certificate has expired", "the API server does not trust the certificate of Sluice (webhook"),
        ("remote error: tls: bad certificate", "the API server does not trust the certificate of Sluice"),
        ('an error on the server ("no\\nt ready") has prevented', "Sluice is not ready (webhook"),
        ("the server could not find the requested resource", "another server answers for Sluice (webhook"),
    ],
)
def test_a_webhook_that_fails_is_a_sentence(cause: str, said: str) -> None:
    """A replica that answers, and says that it is not ready, is no outage."""
    with pytest.raises(WebhookError) as caught:
        responses.read(failure(cause))
    text = str(caught.value.during("no replica of Sluice answers since noon"))
    assert text.startswith(f"error: nothing was changed: {said}")
    assert "what to do: docs/operating/" in text
    assert "\n" not in text


def test_a_webhook_of_others_that_fails_keeps_the_words_of_the_api_server() -> None:
    with pytest.raises(ServerError, match=r'failed calling webhook "queues\.example\.com"'):
        responses.read(failure(name="queues.example.com"))


# What the replicas say on their Leases


@each_case(
    ("renewed", "seconds", "end"),
    [
        ("2026-11-23T09:00:00.000000Z", 6, "2026-11-23T09:00:06Z"),
        ("2026-11-23T09:00:00.000000Z", 2**31 - 1, "2026-11-23T09:00:15Z"),
        ("9999-12-31T23:59:59.000000Z", 2**31 - 1, "9999-12-31T23:59:59Z"),
    ],
)
def test_a_lease_ends_soon_after_its_last_renewal_whatever_its_duration(
    renewed: str, seconds: int, end: str
) -> None:
    """Who may write a Lease cannot end the plugin, nor have a replica answer for years."""
    spec = {"renewTime": renewed, "leaseDurationSeconds": seconds}
    assert lease_end({"spec": spec}) == datetime.fromisoformat(end)


@each_case(
    ("change", "is_foreign_one"),
    [
        ({}, False),
        ({"name": "sluice-replica-b"}, True),
        ({"report": "{}"}, False),
        ({"report": ""}, True),
        ({"report": "[]"}, True),
        ({"renewed": "2999-01-01T00:00:00.000000Z"}, True),
        ({"holder": "somebody"}, True),
    ],
)
def test_a_lease_that_no_replica_has_written_is_told_apart(
    change: dict[str, str], is_foreign_one: bool
) -> None:
    facts = {
        "name": "sluice-replica-a",
        "holder": "a",
        "report": '{"seen":7}',
        "renewed": NOW.isoformat(),
        **change,
    }
    lease = {
        "metadata": {"name": facts["name"], "annotations": {"sluice.dev/seen": facts["report"]}},
        "spec": {"holderIdentity": facts["holder"], "renewTime": facts["renewed"], "leaseDurationSeconds": 6},
    }
    assert is_foreign(lease, now=NOW) is is_foreign_one
