"""Where the API server is and who we are: read from a kubeconfig, or from the files of the pod we run in.

The two usual cases are read here: a pod's service account, and a kubeconfig with a token or with paths of
certificates. The `kubernetes` package reads all others (credentials programs, identity providers, client
certificates inside the file, several files) and words the error of a file that is wrong. It is imported only
for those: its import is a third of the CPU time in which the server starts.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import yaml

from cluster.exceptions import ConfigurationError

#: What a pod finds in its file system.
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
#: The keys of a kubeconfig's cluster and user that are read here.
_CLUSTER = frozenset({"server", "certificate-authority", "certificate-authority-data", "tls-server-name"})
_USER = frozenset({"token", "client-certificate", "client-key"})


class Configuration(Protocol):
    """What a client needs to know: our own `ApiSettings`, or the `kubernetes` package's `Configuration`."""

    host: Any
    ssl_ca_cert: Any
    ca_cert_data: Any
    cert_file: Any
    key_file: Any
    verify_ssl: Any
    assert_hostname: Any
    tls_server_name: Any

    def get_api_key_with_prefix(self, identifier: str, alias: str | None = None) -> str | None:
        """The value of the header Authorization."""


@dataclass
class ApiSettings:
    """`host`: the URL. `token`, or the file that has it, which is read again each time."""

    host: str
    ssl_ca_cert: str | None = None
    ca_cert_data: str | bytes | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify_ssl: bool = True
    assert_hostname: bool | str | None = None
    tls_server_name: str | None = None
    token: str = field(default="", repr=False)
    token_file: Path | None = None

    def get_api_key_with_prefix(self, identifier: str, alias: str | None = None) -> str | None:
        """The value of the header Authorization, by the names that the `kubernetes` package uses."""
        token = self.token if self.token_file is None else self.token_file.read_text().strip()
        if self.token_file is not None and not token:
            raise ValueError(f"{self.token_file} is empty")
        return f"Bearer {token}" if token else None


def load_configuration(kubeconfig: str | None = None) -> Configuration:
    """Read a kubeconfig, or the settings of the pod we run in. Raises `ConfigurationError`."""
    in_pod = kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ
    try:
        if in_pod:
            return _pod_settings()
        return _file_settings(kubeconfig) or _by_kubernetes(kubeconfig)
    except Exception as exc:  # the loader may raise anything, depending on the file
        where = kubeconfig or "the in-cluster settings and ~/.kube/config"
        raise ConfigurationError(f"no usable cluster configuration in {where}: {exc}") from exc


def _pod_settings() -> ApiSettings:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ValueError("KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT is empty")
    authority, token_file = SERVICE_ACCOUNT / "ca.crt", SERVICE_ACCOUNT / "token"
    for file in (authority, token_file):
        if not file.read_text():
            raise ValueError(f"{file} is empty")
    name = f"[{host}]" if ":" in host else host
    return ApiSettings(f"https://{name}:{port}", ssl_ca_cert=str(authority), token_file=token_file)


def _file_settings(kubeconfig: str | None) -> ApiSettings | None:
    """The settings of a file that has only what is read here, else None."""
    if kubeconfig is None:
        return None
    file = Path(kubeconfig).expanduser()
    try:
        content = yaml.safe_load(file.read_text())
        context = _named(content["contexts"], content["current-context"])["context"]
        cluster = _named(content["clusters"], context["cluster"])["cluster"]
        user = _named(content["users"], context["user"])["user"]
        values = (*cluster.values(), *user.values())
        unknown = (cluster.keys() - _CLUSTER) | (user.keys() - _USER)
        if unknown or not all(_is_text(value) for value in values):
            return None
        authority = cluster.get("certificate-authority-data")
        return ApiSettings(
            host=cluster["server"].rstrip("/"),
            ssl_ca_cert=_existing(file, cluster.get("certificate-authority")),
            ca_cert_data=base64.b64decode(authority, validate=True).decode("ascii") if authority else None,
            cert_file=_existing(file, user.get("client-certificate")),
            key_file=_existing(file, user.get("client-key")),
            tls_server_name=cluster.get("tls-server-name"),
            token=user.get("token", ""),
        )
    except (OSError, ValueError, LookupError, StopIteration, TypeError, AttributeError, yaml.YAMLError):
        return None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _named(items: list[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    return next(item for item in items if item["name"] == name)


def _existing(kubeconfig: Path, name: str | None) -> str | None:
    """The path of a file that a kubeconfig names, by its own folder. Raises OSError where it is not there."""
    if not name:
        return None
    path = os.path.normpath(kubeconfig.absolute().parent / name)
    os.stat(path)  # noqa: PTH116 - a text, as everything else here
    return path


def _by_kubernetes(kubeconfig: str | None) -> Configuration:
    from kubernetes.client import Configuration as Loaded  # noqa: PLC0415 - not needed for most files
    from kubernetes.config import load_kube_config  # noqa: PLC0415

    settings = Loaded()
    load_kube_config(config_file=kubeconfig, client_configuration=settings)  # type: ignore[no-untyped-call]
    return settings
