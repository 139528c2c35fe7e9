"""The kubeconfig and the flags lead to one server and one user; the environment does not interfere."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
import yaml

from certs import authority
from kubectl_queue.access import kubeconfig, proxies
from kubectl_queue.access import responses as answers
from kubectl_queue.access.kubeconfig import Context
from kubectl_queue.access.settings import (
    Access,
    Overrides,
    resolve,
)
from kubectl_queue.access.transport import Response
from kubectl_queue.errors import ConfigError, CredentialsError, KindMissingError, QueueError

SERVER = "https://10.0.0.1:6443"


def write(path: Path, *, cluster: Mapping[str, Any], user: Mapping[str, Any], name: str = "a") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def access(
    user: Mapping[str, Any] | None = None, *, cluster: Mapping[str, Any] | None = None, **overrides: Any
) -> Access:
    context = Context({"server": SERVER, **(cluster or {})}, user or {}, "a")
    return resolve(context, Overrides(**overrides), environ={})


def test_of_two_files_the_first_has_the_say_and_the_other_adds(tmp_path: Path) -> None:
    first = write(tmp_path / "1", cluster={"server": "https://one"}, user={})
    second = write(tmp_path / "2", cluster={"server": "https://two"}, user={"token": "t"}, name="b")
    environ = {"KUBECONFIG": f"{first}:{tmp_path / 'missing'}:{second}"}
    merged = kubeconfig.load(kubeconfig.files("", environ=environ))
    assert kubeconfig.choose(merged).cluster["server"] == "https://one"
    assert kubeconfig.choose(merged, context="b").user == {"token": "t"}
    assert kubeconfig.choose(merged, user="b").cluster["server"] == "https://one"


def test_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    path = write(
        tmp_path / "deep" / "config",
        cluster={"server": SERVER, "certificate-authority": "ca.crt"},
        user={"exec": {"command": "bin/login"}},
    )
    context = kubeconfig.choose(kubeconfig.load((path,)))
    assert context.cluster["certificate-authority"] == str(tmp_path / "deep" / "ca.crt")
    assert context.user["exec"]["command"] == str(tmp_path / "deep" / "bin/login")


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"context": "z"}, "context was not found for specified context: z (there are: a)"),
        ({"cluster": "z"}, 'no server found for cluster "z" (there are: a)'),
        ({"user": "z"}, 'auth info "z" does not exist (there are: a)'),
    ],
)
def test_a_name_that_is_not_there_is_answered_with_those_that_are(
    tmp_path: Path, chosen: dict[str, str], said: str
) -> None:
    merged = kubeconfig.load((write(tmp_path / "c", cluster={"server": SERVER}, user={}),))
    with pytest.raises(ConfigError) as error:
        kubeconfig.choose(merged, **chosen)
    assert said in str(error.value)


@pytest.mark.parametrize("text", ["[1]", "{", "clusters: [{}]", "clusters: 5", "users: [{name: a, user: 7}]"])
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken"
    path.write_text(text)
    with pytest.raises(ConfigError, match="broken"):
        kubeconfig.load((path,))


def test_without_any_kubeconfig_it_says_what_to_give() -> None:
    with pytest.raises(ConfigError, match="no API server is configured; set KUBECONFIG"):
        resolve(Context({}, {}), Overrides(), environ={})


def test_a_token_file_goes_before_a_token_and_a_flag_before_both(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("renewed\n")
    user = {"token": "old", "tokenFile": str(tmp_path / "token")}
    assert access(user).headers == (("Authorization", "Bearer renewed"),)
    assert access(user, token="flag").headers == (("Authorization", "Bearer flag"),)


def test_impersonation_is_asked_for_in_headers() -> None:
    headers = access({"as": "x"}, as_user="ed", as_groups=("g", "h")).headers
    assert headers == (("Impersonate-User", "ed"), ("Impersonate-Group", "g"), ("Impersonate-Group", "h"))


@pytest.mark.parametrize(
    ("overrides", "error"),
    [
        ({"as_groups": ("g",)}, "without impersonating a user"),
        ({"token": "a\r\nX-Evil: 1"}, "characters that no HTTP header can carry"),
        ({"server": "ftp://x"}, "is not the address of an API server"),
        ({"server": "https://x:notaport"}, "is not the address of an API server"),
        ({"certificate_authority": "/nonexistent"}, "unable to read certificate-authority /nonexistent"),
    ],
)
def test_flags_that_make_no_sense_are_refused(overrides: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        access(**overrides)


def test_with_an_authority_of_its_own_nothing_else_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = (authority.create(name="test", now=datetime.now(UTC)) for _ in range(2))
    (tmp_path / "other.crt").write_bytes(theirs.certificate)
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, str(tmp_path / "other.crt"))
    found = access(cluster={"certificate-authority-data": base64.b64encode(ours.certificate).decode()})
    assert found.tls is not None
    assert [len(found.tls.get_ca_certs()), found.tls.verify_mode] == [1, ssl.CERT_REQUIRED]
    assert found.tls.get_ca_certs(binary_form=True) == [ssl.PEM_cert_to_DER_cert(ours.certificate.decode())]


@pytest.mark.parametrize(("flag", "mode"), [(None, ssl.CERT_NONE), (False, ssl.CERT_REQUIRED)])
def test_the_flag_for_no_checks_goes_before_the_kubeconfig(flag: bool | None, mode: ssl.VerifyMode) -> None:
    found = access(cluster={"insecure-skip-tls-verify": True}, insecure=flag)
    assert found.tls is not None
    assert found.tls.verify_mode is mode


def test_a_client_key_that_cannot_be_read_is_said_in_words() -> None:
    user = {f"client-{half}-data": base64.b64encode(b"junk").decode() for half in ("certificate", "key")}
    with pytest.raises(CredentialsError, match="cannot be read or do not fit each other"):
        access(user)


def login(tmp_path: Path, script: str) -> dict[str, Any]:
    path = tmp_path / "login"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path)}}


def test_a_credential_plugin_is_run_with_its_variables_and_told_of_the_cluster(tmp_path: Path) -> None:
    script = (
        'case "$KUBERNETES_EXEC_INFO" in *\'"server": "https://10.0.0.1:6443"\'*) ;; *) exit 9;; esac\n'
        'echo "{\\"apiVersion\\":\\"client.authentication.k8s.io/v1\\",'
        '\\"status\\":{\\"token\\":\\"$WHO-$1\\"}}"'
    )
    user = login(tmp_path, script)
    user["exec"] |= {"args": ["x"], "env": [{"name": "WHO", "value": "ed"}], "provideClusterInfo": True}
    assert access(user).headers == (("Authorization", "Bearer ed-x"),)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 3", "failed with exit code 3\n\nget it from x"),
        ("echo no", "is not an ExecCredential"),
        (
            'echo \'{"apiVersion":"client.authentication.k8s.io/v1","status":{}}\'',
            "neither a token nor a client certificate",
        ),
        ('echo \'{"apiVersion":"v7","status":{"token":"t"}}\'', "plugin returned version v7"),
    ],
)
def test_a_credential_plugin_that_fails_is_said_with_the_hint_of_its_config(
    tmp_path: Path, script: str, said: str
) -> None:
    user = login(tmp_path, script)
    user["exec"]["installHint"] = "get it from x"
    with pytest.raises(CredentialsError) as error:
        access(user)
    assert said in str(error.value)


def test_a_credential_plugin_that_is_not_there_is_named() -> None:
    with pytest.raises(CredentialsError, match="exec: /nonexistent/login: No such file or directory"):
        access({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/nonexistent/login"}})


@pytest.mark.parametrize(
    ("server", "environ", "found"),
    [
        ("https://10.0.0.1", {"HTTPS_PROXY": "http://p:3128"}, "http://p:3128"),
        ("https://10.0.0.1", {"https_proxy": "p:3128"}, "http://p:3128"),
        ("https://10.0.0.1", {"HTTP_PROXY": "http://p"}, ""),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://p"}, ""),
        ("https://localhost", {"HTTPS_PROXY": "http://p"}, ""),
        ("https://[::1]:6443", {"HTTPS_PROXY": "http://p"}, ""),
        ("https://10.0.0.1", {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.0.0.0/8"}, ""),
        ("https://10.0.0.1", {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.0.0.1:443"}, ""),
        ("https://10.0.0.1", {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.0.0.1:80"}, "http://p"),
        ("https://a.b.c", {"HTTPS_PROXY": "http://p", "no_proxy": "x, b.c"}, ""),
        ("https://ab.c", {"HTTPS_PROXY": "http://p", "NO_PROXY": "b.c"}, "http://p"),
        ("https://b.c", {"HTTPS_PROXY": "http://p", "NO_PROXY": ".b.c"}, "http://p"),
        ("https://b.c", {"HTTPS_PROXY": "http://p", "NO_PROXY": "*"}, ""),
    ],
)
def test_the_proxy_is_that_which_go_would_take(server: str, environ: dict[str, str], found: str) -> None:
    assert proxies.proxy(server, configured="", environ=environ) == found


def test_the_kubeconfig_s_proxy_goes_before_the_environment() -> None:
    environ = {"HTTPS_PROXY": "http://p", "NO_PROXY": "*"}
    assert proxies.proxy(SERVER, configured="http://mine", environ=environ) == "http://mine"


def answered(code: int, body: str, **headers: str) -> Response:
    message = Message()
    for name, value in headers.items():
        message[name] = value
    return Response(code, message, body.encode())


@pytest.mark.parametrize(
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
            'unknown field "spec.state"; the definition of queues on this server is not Sluice\'s',
        ),
    ],
)
def test_refusals_are_in_kubectl_s_words(code: int, body: str, said: str) -> None:
    with pytest.raises(QueueError) as error:
        answers.read(answered(code, body))
    assert said in str(error.value)


def test_a_server_without_queues_is_told_from_a_queue_that_is_not_there() -> None:
    with pytest.raises(KindMissingError, match="kubectl apply -k manifests/crds"):
        answers.read(answered(404, "404 page not found\n"))


def test_warnings_are_unquoted() -> None:
    response = answered(200, "{}", Warning='299 - "say \\"hi\\"", 299 - "two"')
    assert answers.warnings(response.headers) == ['say "hi"', "two"]
