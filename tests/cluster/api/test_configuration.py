"""Where the API server is and who we are: read as the `kubernetes` package does, mostly without it."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import Configuration as Reference
from kubernetes.config import load_kube_config

from cluster.api import configuration
from cluster.api.configuration import ApiSettings, Configuration, load_configuration
from cluster.exceptions import ConfigurationError

SERVER = "https://api.example:6443"
AUTHORITY = "-----BEGIN CERTIFICATE-----\n"


def kubeconfig(
    folder: Path, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **changes: Any
) -> str:
    for name in ("ca.crt", "client.crt", "client.key", "token"):
        (folder / name).write_text(AUTHORITY)
    other = {"name": "other", "cluster": {"server": "https://other"}}
    content = {
        "clusters": [other, {"name": "c", "cluster": {"server": SERVER, **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(content | changes))
    return str(file)


def reference(file: str) -> Reference:
    found = Reference()
    load_kube_config(config_file=file, client_configuration=found)  # type: ignore[no-untyped-call]
    return found


def values(found: Configuration | Reference) -> dict[str, Any]:
    """What a client reads of it; of an authority its text, wherever it is."""
    authority = Path(found.ssl_ca_cert).read_text() if found.ssl_ca_cert else found.ca_cert_data
    names = ("host", "cert_file", "key_file", "verify_ssl", "assert_hostname", "tls_server_name")
    token = found.get_api_key_with_prefix("BearerToken", alias="authorization")
    return {name: getattr(found, name) for name in names} | {"authority": authority, "token": token}


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        ({}, {}),
        ({}, {"token": "secret"}),
        ({"certificate-authority": "ca.crt"}, {"token": "secret"}),
        ({"certificate-authority-data": base64_of(AUTHORITY)}, {"token": "secret"}),
        (
            {"server": SERVER + "/", "tls-server-name": "kubernetes"},
            {"client-certificate": "client.crt", "client-key": "./client.key"},
        ),
    ],
)
def test_a_usual_kubeconfig_is_read_as_the_package_reads_it(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any]
) -> None:
    file = kubeconfig(tmp_path, cluster, user)
    found = load_configuration(file)
    assert isinstance(found, ApiSettings)
    assert values(found) == values(reference(file))


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        ({"insecure-skip-tls-verify": True}, {"token": "secret"}),
        ({"proxy-url": "http://proxy"}, {"token": "secret"}),
        ({}, {"tokenFile": "token"}),
        ({}, {"username": "ann", "password": "secret"}),
        ({}, {"client-certificate-data": base64_of("c"), "client-key-data": base64_of("k")}),
        ({}, {"token": ""}),
    ],
)
def test_every_other_kubeconfig_is_read_by_the_package(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any]
) -> None:
    file = kubeconfig(tmp_path, cluster, user)
    found = load_configuration(file)
    assert isinstance(found, Reference)
    assert values(found) == values(reference(file))


@pytest.mark.parametrize(
    ("cluster", "changes", "error"),
    [
        ({"certificate-authority": "gone.crt"}, {}, "gone.crt"),
        ({}, {"current-context": "none"}, "none"),
        ({}, {"clusters": []}, "clusters"),
        ({}, {"contexts": 5}, "kubeconfig"),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_the_package(
    tmp_path: Path, cluster: dict[str, Any], changes: dict[str, Any], error: str
) -> None:
    file = kubeconfig(tmp_path, cluster, {"token": "secret"}, **changes)
    with pytest.raises(ConfigurationError, match=error):
        load_configuration(file)


def test_a_pod_has_its_service_account_and_reads_a_new_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configuration, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(ConfigurationError, match=r"ca\.crt"):
        load_configuration()
    (tmp_path / "ca.crt").write_text(AUTHORITY)
    (tmp_path / "token").write_text("one\n")
    found = load_configuration()
    assert (found.host, found.ssl_ca_cert) == ("https://[fd00::1]:443", str(tmp_path / "ca.crt"))
    assert found.get_api_key_with_prefix("BearerToken") == "Bearer one"
    (tmp_path / "token").write_text("two")
    assert found.get_api_key_with_prefix("BearerToken") == "Bearer two"
    (tmp_path / "token").write_text("")
    with pytest.raises(ValueError, match="is empty"):
        found.get_api_key_with_prefix("BearerToken")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "")
    with pytest.raises(ConfigurationError, match="KUBERNETES_SERVICE_PORT"):
        load_configuration()


def test_a_token_is_not_shown() -> None:
    assert "secret" not in repr(ApiSettings(host=SERVER, token="secret"))


def test_the_server_does_not_import_the_package(tmp_path: Path) -> None:
    """Its import would be a third of the CPU time in which the server starts."""
    file = kubeconfig(tmp_path, {}, {"token": "secret"})
    code = (
        "import sys, server.main\nfrom cluster.api.configuration import load_configuration\n"
        f"load_configuration({file!r})\nprint('kubernetes' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
