"""How to reach one API server as one user: the context, the flags over it, the files read.

Promises
- What is trusted is what the kubeconfig or the flags say: with a CA of its own no variable of the
  environment (`SSL_CERT_FILE`, `REQUESTS_CA_BUNDLE`) adds to it. Without one it is the machine's.
- A token or key lives in memory; a client certificate given as data is on disk only while it
  is read into the TLS context, readable by its user alone.
"""

from __future__ import annotations

import base64
import binascii
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kubectl_queue.access import exec_plugins
from kubectl_queue.access.exec_plugins import Credential
from kubectl_queue.access.kubeconfig import Context, Entry
from kubectl_queue.errors import ConfigError, CredentialsError

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """The flags that say who and where."""

    server: str = ""
    token: str = ""
    certificate_authority: str = ""
    insecure: bool | None = None
    tls_server_name: str = ""
    as_user: str = ""
    as_uid: str = ""
    as_groups: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Access:
    """All that the transport needs. `headers` may repeat a name."""

    server: str
    tls: ssl.SSLContext | None
    tls_server_name: str = ""
    proxy: str = ""
    headers: tuple[tuple[str, str], ...] = ()


def resolve(context: Context, overrides: Overrides, *, environ: Mapping[str, str]) -> Access:
    """Read the files, run the credential plugin, build the TLS context.

    Raises ConfigError or CredentialsError.
    """
    if not (context.cluster.get("server") or overrides.server):
        context = _in_cluster(context, environ=environ)
    server = _server(overrides.server or str(context.cluster.get("server", "")))
    credential = _credential(context, token=overrides.token)
    secure = server.startswith("https://")
    return Access(
        server=server,
        tls=_tls(context.cluster, credential, overrides) if secure else None,
        tls_server_name=overrides.tls_server_name or str(context.cluster.get("tls-server-name") or ""),
        proxy=str(context.cluster.get("proxy-url") or ""),
        headers=(*_authorization(credential), *_impersonation(context.user, overrides)),
    )


def _in_cluster(context: Context, *, environ: Mapping[str, str]) -> Context:
    """Inside a pod and without a kubeconfig: its service account, as kubectl does."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if context.name or context.cluster or not (host and port and (_SERVICE_ACCOUNT / "token").exists()):
        raise ConfigError(
            "no API server is configured; set KUBECONFIG, "
            "or give --kubeconfig FILE, --context NAME or --server URL"
        )
    bracketed = f"[{host}]" if ":" in host else host
    cluster = {
        "server": f"https://{bracketed}:{port}",
        "certificate-authority": str(_SERVICE_ACCOUNT / "ca.crt"),
    }
    return Context(cluster, {"tokenFile": str(_SERVICE_ACCOUNT / "token")})


def _server(given: str) -> str:
    server = (given if "://" in given else f"https://{given}").rstrip("/")
    try:
        parts = urlsplit(server)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = None
    if not usable:
        raise ConfigError(f'"{given}" is not the address of an API server, such as https://10.0.0.1:6443')
    return server


def _credential(context: Context, *, token: str) -> Credential:
    user = context.user
    if token:
        return Credential(token=token)
    if user.get("auth-provider"):
        name = user["auth-provider"].get("name", "") if isinstance(user["auth-provider"], dict) else ""
        raise CredentialsError(
            f'no Auth Provider found for name "{name}": Kubernetes removed these; use an exec plugin instead'
        )
    if user.get("exec"):
        return exec_plugins.run(user["exec"], cluster=_with_authority(context.cluster))
    return Credential(
        token=_token(user),
        basic=_basic(user),
        certificate=data(user, "client-certificate"),
        key=data(user, "client-key"),
    )


def _with_authority(cluster: Entry) -> Entry:
    """The cluster as a plugin is told of it: the authority itself, not where it is."""
    authority = data(cluster, "certificate-authority")
    encoded = base64.b64encode(authority).decode()
    return {**cluster, "certificate-authority-data": encoded} if authority else cluster


def _token(user: Entry) -> str:
    """The file goes before the text, since it is what gets renewed."""
    if user.get("tokenFile"):
        return _read(str(user["tokenFile"]), what="tokenFile").decode(errors="replace").strip()
    return str(user.get("token") or "")


def _basic(user: Entry) -> str:
    if not user.get("username"):
        return ""
    return base64.b64encode(f"{user['username']}:{user.get('password', '')}".encode()).decode()


def data(entry: Entry, name: str) -> bytes:
    """The content of `name-data`, else of the file that `name` names, else nothing."""
    if entry.get(f"{name}-data"):
        try:
            return base64.b64decode(str(entry[f"{name}-data"]), validate=True)
        except (binascii.Error, ValueError) as exc:
            raise ConfigError(f"{name}-data of the kubeconfig is not base64") from exc
    return _read(str(entry[name]), what=name) if entry.get(name) else b""


def _read(path: str, *, what: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as exc:
        raise ConfigError(f"unable to read {what} {path}: {exc.strerror}") from exc


def _tls(cluster: Entry, credential: Credential, overrides: Overrides) -> ssl.SSLContext:
    authority: Entry = cluster
    if overrides.certificate_authority:
        authority = {"certificate-authority": overrides.certificate_authority}
    tls = _trust(data(authority, "certificate-authority"))
    insecure = cluster.get("insecure-skip-tls-verify") if overrides.insecure is None else overrides.insecure
    if insecure:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    if credential.certificate:
        _present(tls, credential)
    return tls


def _trust(authority: bytes) -> ssl.SSLContext:
    try:
        # With cadata neither the machine's store nor SSL_CERT_FILE is read.
        tls = ssl.create_default_context(cadata=authority.decode() or None)
    except (ssl.SSLError, UnicodeDecodeError, ValueError) as exc:
        raise ConfigError("certificate-authority holds no PEM certificate that can be read") from exc
    # Go checks no more than RFC 5280 asks; Python 3.13's strict flag refuses authorities that kubectl takes.
    tls.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", ssl.VerifyFlags(0))
    return tls


def _present(tls: ssl.SSLContext, credential: Credential) -> None:
    with tempfile.TemporaryDirectory(prefix="kubectl-queue-") as folder:
        path = Path(folder) / "client.pem"
        path.touch(mode=0o600)
        path.write_bytes(credential.certificate + b"\n" + credential.key)
        try:
            tls.load_cert_chain(path, password=_no_password)
        except (ssl.SSLError, ValueError) as exc:
            raise CredentialsError(
                "the client certificate and key of the kubeconfig cannot be read or do not fit each other"
            ) from exc


def _no_password() -> str:
    """Asked for an encrypted key only; OpenSSL would otherwise ask the terminal."""
    return ""


def _authorization(credential: Credential) -> tuple[tuple[str, str], ...]:
    if credential.token:
        return (("Authorization", f"Bearer {_header('token', credential.token)}"),)
    return (("Authorization", f"Basic {credential.basic}"),) if credential.basic else ()


def _impersonation(user: Entry, overrides: Overrides) -> tuple[tuple[str, str], ...]:
    name = overrides.as_user or str(user.get("as") or "")
    groups = overrides.as_groups or user.get("as-groups") or ()
    uid = overrides.as_uid or str(user.get("as-uid") or "")
    if not name:
        if groups or uid:
            raise ConfigError("requesting uid or groups without impersonating a user; give --as USER too")
        return ()
    headers = [("Impersonate-User", _header("--as", name))]
    headers += [("Impersonate-Uid", _header("--as-uid", uid))] if uid else []
    return tuple(headers + [("Impersonate-Group", _header("--as-group", str(group))) for group in groups])


def _header(what: str, value: Any) -> str:
    text = str(value)
    if not text.isprintable() or not text.isascii():
        raise ConfigError(f"{what} has characters that no HTTP header can carry")
    return text
