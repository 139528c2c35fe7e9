"""Credentials from a program (client.authentication.k8s.io), as client-go runs it.

Promises: it is run once a command, with the kubeconfig's arguments and variables over ours; it
may talk to the terminal unless it is never interactive; what it prints on stderr is shown.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubectl_queue.errors import CredentialsError

_GROUP = "client.authentication.k8s.io"
#: What a plugin is told of the cluster.
_TOLD = (
    "server",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "certificate-authority-data",
    "proxy-url",
)
_VERSIONS = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")


@dataclass(frozen=True, kw_only=True)
class Credential:
    """What a user proves itself with; `certificate` and `key` are PEM, `basic` is base64."""

    token: str = ""
    basic: str = ""
    certificate: bytes = b""
    key: bytes = b""


def run(program: Mapping[str, Any], *, cluster: Mapping[str, Any]) -> Credential:
    """Run it and read the credential it prints. Raises CredentialsError, with its install hint."""
    version = str(program.get("apiVersion") or "")
    if version not in _VERSIONS:
        raise CredentialsError(
            f'exec plugin: apiVersion "{version}" is not supported; use one of {", ".join(_VERSIONS)}'
        )
    return _credential(_output(program, version=version, cluster=cluster), version=version)


def _output(program: Mapping[str, Any], *, version: str, cluster: Mapping[str, Any]) -> str:
    command = str(program.get("command") or "")
    interactive = _interactive(program)
    info = _info(program, version=version, cluster=cluster, interactive=interactive)
    try:
        done = subprocess.run(
            [command, *map(str, program.get("args") or ())],
            env=_environment(program, info),
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=False,
        )
    except OSError as exc:
        raise CredentialsError(
            f"getting credentials: exec: {command}: {exc.strerror}{_hint(program)}"
        ) from exc
    if done.returncode != 0:
        raise CredentialsError(
            f"getting credentials: exec: executable {command} failed with exit code {done.returncode}"
            + _hint(program)
        )
    return done.stdout.decode(errors="replace")


def _interactive(program: Mapping[str, Any]) -> bool:
    mode = program.get("interactiveMode") or "IfAvailable"
    available = sys.stdin is not None and sys.stdin.isatty()
    if mode == "Always" and not available:
        raise CredentialsError(
            "exec plugin cannot support interactive mode: standard input is not a terminal"
        )
    return available and mode != "Never"


def _environment(program: Mapping[str, Any], info: str) -> dict[str, str]:
    extra = {str(item["name"]): str(item.get("value", "")) for item in program.get("env") or ()}
    return {**os.environ, **extra, "KUBERNETES_EXEC_INFO": info}


def _info(program: Mapping[str, Any], *, version: str, cluster: Mapping[str, Any], interactive: bool) -> str:
    spec: dict[str, Any] = {"interactive": interactive}
    if program.get("provideClusterInfo"):
        spec["cluster"] = {name: cluster[name] for name in _TOLD if cluster.get(name)}
    return json.dumps({"kind": "ExecCredential", "apiVersion": version, "spec": spec})


def _credential(output: str, *, version: str) -> Credential:
    try:
        printed = json.loads(output)
        status = printed["status"]
        found = Credential(
            token=str(status.get("token") or ""),
            certificate=str(status.get("clientCertificateData") or "").encode(),
            key=str(status.get("clientKeyData") or "").encode(),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        raise CredentialsError("exec plugin: what it printed is not an ExecCredential with a status") from exc
    if printed.get("apiVersion") != version:
        raise CredentialsError(
            f"exec plugin is configured to use API version {version}, "
            f"plugin returned version {printed.get('apiVersion')}"
        )
    if not found.token and not (found.certificate and found.key):
        raise CredentialsError("exec plugin: neither a token nor a client certificate and key in its status")
    return found


def _hint(program: Mapping[str, Any]) -> str:
    return f"\n\n{program['installHint']}" if program.get("installHint") else ""
