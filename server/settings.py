"""The settings: from flags, else the environment, else a file, else their defaults.

Each setting is a field of `Settings`: `bind` is `--bind`, `SLUICE_BIND`, and `bind:` in the YAML file that
`--config` names. An invalid setting ends the start with an error that names it (`SettingsError`).

A setting has its field and check in `Settings`, its line of `--help` in `_HELP` and its row in
docs/reference/settings.md. `server.runtime` hands it to those who read it:

| read by                        | as                                                               |
|--------------------------------|------------------------------------------------------------------|
| the controller                 | `controller.context.ControllerContext`                           |
| the webhooks                   | `AdmissionSettings`, made by `Settings.admission_settings`       |
| what decides membership        | `MembershipSettings`, made by `Settings.membership_settings`     |
| the thread of certificates     | `CertificateSettings`, made by `Settings.certificate_settings`   |
| the worker                     | `ClientCertificates`, made by `Settings.client_certificates`     |
| clients, store, write queues   | arguments                                                        |
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import yaml
from cryptography import x509

from certs.renewal import CertificateSettings
from queues.apimachinery.conversion import Converter
from queues.apimachinery.label_selectors import BadSelector
from queues.drain.terminating_pods import GRACE_LIMIT
from queues.managed_namespaces import FORMS as MANAGED_FORMS
from queues.managed_namespaces import read_selector
from queues.membership import MembershipSettings, valid_name
from queues.mode import SCHEDULER_NAME, Mode
from queues.text import any_of
from server.http.authorization import Callers, ClientCertificates
from webhooks.settings import CONTROLLER_USERS, AdmissionSettings

PREFIX = "SLUICE_"


class SettingsError(Exception):
    """An invalid setting; the message names it, where it came from, and what is valid."""


@dataclass(frozen=True)
class Range:
    """The whole numbers that a setting may have. `of`: what they count."""

    first: int
    last: int
    of: str = ""

    def __contains__(self, number: int) -> bool:
        return self.first <= number <= self.last

    def __str__(self) -> str:
        return f"a whole number{self.of and f' of {self.of}'} from {self.first} to {self.last}"


LEVELS = ("debug", "info", "warning", "error")
MODES = tuple(mode.value for mode in Mode)

#: Every setting that is a number. The schema of the Helm chart is made from this table and the next.
RANGES: Mapping[str, Range] = {
    "ca_wait_days": Range(0, 180, "days"),
    "depth_limit": Range(1, 100),
    "writers": Range(1, 64),
    "request_timeout": Range(5, 3600, "seconds"),
    "drain_rate": Range(1, 10_000, "evictions a second"),
    "drain_in_flight": Range(1, 100_000, "pods"),
    "drain_grace_limit": Range(1, 86_400, "seconds"),
    "window_soon": Range(0, 1440, "minutes"),
}
#: Every setting that is one of some words.
CHOICES: Mapping[str, Sequence[str]] = {"mode": MODES, "log_level": LEVELS}


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings. In flags and the environment the items of a list are separated by commas."""

    bind: str = "127.0.0.1:8443"
    health_bind: str = "127.0.0.1:8081"
    client_ca: tuple[str, ...] = ()
    scheduler_callers: tuple[str, ...] = ("system:kube-scheduler",)
    api_server_callers: tuple[str, ...] = ("kube-apiserver",)
    certs_dir: str = "certs-dir"
    ca_secret: str = ""
    ca_wait_days: int = 30
    tls_dir: str = ""
    hosts: tuple[str, ...] = ()
    kubeconfig: str = ""
    api_servers: tuple[str, ...] = ()
    namespace: str = "sluice-system"
    service: str = "sluice"
    webhook_url: str = ""
    mode: str = Mode.EXTENDER.value
    schedulers: tuple[str, ...] = ("default-scheduler",)
    scheduler_name: str = SCHEDULER_NAME
    scheduler_config: str = ""
    scheduler_users: tuple[str, ...] = ("system:kube-scheduler",)
    controller_users: tuple[str, ...] = tuple(sorted(CONTROLLER_USERS))
    owned_schedulers: tuple[str, ...] = ("volcano",)
    policies_namespace: str = "volcano-system"
    policies_name: str = "volcano-scheduler-configmap"
    notices_dir: str = ""
    kueue_label: bool = False
    managed_namespaces: str = ""
    binding_namespaces: bool = False
    depth_limit: int = 5
    writers: int = 4
    request_timeout: int = 60
    drain_rate: int = 200
    drain_in_flight: int = 500
    drain_grace_limit: int = GRACE_LIMIT
    window_soon: int = 15
    queue_metrics: bool = False
    log_level: str = "info"

    def __post_init__(self) -> None:
        for name, ok, expected in (
            ("bind", _bind_host(self.bind) is not None, "HOST:PORT with a port from 1 to 65535"),
            (
                "health_bind",
                _bind_host(self.health_bind) is not None and self.health_bind != self.bind,
                "HOST:PORT with a port from 1 to 65535, another one than that of bind",
            ),
            ("client_ca", all(map(_is_authority, self.client_ca)), _EXPECTED_AUTHORITIES),
            (
                "api_server_callers",
                bool(self.api_server_callers or not self.client_ca),
                "the names in the API servers' certificates, since client_ca is set",
            ),
            ("namespace", bool(_NAME.fullmatch(self.namespace)), "the name of a namespace"),
            ("ca_secret", not self.ca_secret or valid_name(self.ca_secret), "empty, or the name of a Secret"),
            (
                "tls_dir",
                not (self.tls_dir and self.ca_secret),
                "nothing beside ca_secret: the certificate is either given or issued by an authority of ours",
            ),
            (
                "api_servers",
                all(url and _is_https(url) for url in self.api_servers),
                "https://HOST:PORT each",
            ),
            ("hosts", all(map(_is_host, self.hosts)), "DNS names and addresses"),
            ("scheduler_name", valid_name(self.scheduler_name), "a scheduler name"),
            ("scheduler_config", _is_file(self.scheduler_config), "empty, or a file that can be read"),
            ("service", bool(_NAME.fullmatch(self.service)), "the name of a Service"),
            ("policies_namespace", bool(_NAME.fullmatch(self.policies_namespace)), "the name of a namespace"),
            ("policies_name", valid_name(self.policies_name), "the name of a ConfigMap"),
            ("managed_namespaces", _is_selector(self.managed_namespaces), MANAGED_FORMS),
            ("webhook_url", _is_https(self.webhook_url), "empty, or https://HOST:PORT"),
            ("certs_dir", bool(self.certs_dir), "a folder"),
            ("kubeconfig", _is_file(self.kubeconfig), "empty, or a file that can be read"),
            *((name, getattr(self, name) in each, f"{each}") for name, each in RANGES.items()),
            *((name, getattr(self, name) in words, any_of(words)) for name, words in CHOICES.items()),
        ):
            if not ok:
                value = _shown(getattr(self, name))
                raise SettingsError(f"{name}: {value} is not valid; expected {expected}")
        if self.scheduler_name in self.schedulers and self.has_own_scheduler:
            raise SettingsError(self._same_name)

    @property
    def warnings(self) -> list[str]:
        """What contradicts nothing now, and would once another setting is changed."""
        if self.scheduler_name in self.schedulers and not self.has_own_scheduler:
            return [f"{self._same_name}, before you set mode scheduler"]
        return []

    @property
    def _same_name(self) -> str:
        return (
            f"scheduler_name: {self.scheduler_name!r} is named in schedulers too, which are those of "
            "the cluster; take it out of schedulers, or give our own kube-scheduler another name"
        )

    @property
    def has_own_scheduler(self) -> bool:
        """Whether our own kube-scheduler runs: in mode `scheduler`, and while its configuration is set."""
        return self.mode == Mode.SCHEDULER or bool(self.scheduler_config)

    @property
    def admission_settings(self) -> AdmissionSettings:
        """What the webhooks read."""
        own_user = f"system:serviceaccount:{self.namespace}:sluice"
        return AdmissionSettings(
            own_user=own_user,
            mode=Mode(self.mode),
            scheduler_name=self.scheduler_name,
            marked_schedulers=frozenset(self.schedulers),
            scheduler_users=frozenset({*self.scheduler_users, own_user}),  # our own kube-scheduler's, too
            controller_users=frozenset(self.controller_users),
            depth_limit=self.depth_limit,
        )

    @property
    def membership_settings(self) -> MembershipSettings:
        """What decides whose queue a pod is."""
        own = {self.scheduler_name} if self.mode == Mode.SCHEDULER else set()
        calling = {self.scheduler_name} if self.has_own_scheduler else set()
        return MembershipSettings(
            owned_schedulers=frozenset({*self.owned_schedulers, *own}),
            calling_schedulers=frozenset(calling),
            kueue=self.kueue_label,
            exempt_namespaces=frozenset({"kube-system", self.namespace}),
            managed_namespaces=read_selector(self.managed_namespaces),
            binding_namespaces=self.binding_namespaces,
        )

    @property
    def certificate_settings(self) -> CertificateSettings:
        """Where the certificate is kept, and for which names it is valid."""
        return CertificateSettings(
            folder=Path(self.certs_dir),
            hosts=self.served_hosts,
            namespace=self.namespace,
            secret=self.ca_secret,
            wait=timedelta(days=self.ca_wait_days),
            given=Path(self.tls_dir) if self.tls_dir else None,
            name=urlsplit(self.webhook_url).hostname or f"{self.service}.{self.namespace}.svc",
        )

    @property
    def client_certificates(self) -> ClientCertificates | None:
        """Who may call; None: everybody who reaches the port."""
        if not self.client_ca:
            return None
        return ClientCertificates(
            authorities=tuple(map(Path, self.client_ca)),
            callers=Callers(
                scheduler=frozenset(self.scheduler_callers), api_server=frozenset(self.api_server_callers)
            ),
        )

    @property
    def served_hosts(self) -> list[str]:
        """The names and addresses that the certificate is valid for."""
        host = _bind_host(self.bind)
        named = [f"{self.service}.{self.namespace}.svc", f"{self.service}.{self.namespace}.svc.cluster.local"]
        own = [host] if host and host not in {"0.0.0.0", "::"} else []  # noqa: S104 - compared
        url = urlsplit(self.webhook_url).hostname
        more = [*self.hosts, *own, *([url] if url else [])]
        return list(dict.fromkeys([*named, *more, "localhost", "127.0.0.1"]))


_settings = Converter[Settings](Settings)

_EXPECTED_AUTHORITIES = (
    "files that are there and hold certificates in PEM; with manifests/client-certificates the file is "
    "key ca.crt of ConfigMap sluice-callers"
)
_LABEL = "[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?"
_DNS = re.compile(rf"({_LABEL}\.)*{_LABEL}")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

_HELP: Mapping[str, str] = {
    "bind": "address to serve on, HOST:PORT",
    "health_bind": "address of /healthz, /readyz and /metrics, HOST:PORT, plain HTTP",
    "client_ca": "PEM files with the authorities of the callers' certificates; empty: everybody may call",
    "scheduler_callers": "names in client certificates that may call the extender",
    "api_server_callers": "names in client certificates that may call the webhooks",
    "certs_dir": "folder for the authority and the serving certificate",
    "ca_secret": "Secret in our namespace that keeps the authority; empty: the folder keeps it",
    "ca_wait_days": "days that schedulers have to copy a new authority before it is used",
    "tls_dir": "folder with tls.crt and tls.key of another issuer (cert-manager); empty: ours",
    "hosts": "more names and addresses that the certificate serves at, such as the Service's clusterIP",
    "kubeconfig": "kubeconfig file; empty: the pod's own service account, else the user's default",
    "api_servers": "URLs of all API servers; empty: those of the Service kubernetes, or the one we know",
    "namespace": "our own namespace, which never holds members",
    "service": "the Service in front of us",
    "webhook_url": "where the API server reaches us, if not by the Service",
    "mode": "how schedulers ask us about members (docs/concepts/modes.md)",
    "schedulers": "schedulers whose members get what the mode says; in mode extender those that call us",
    "scheduler_name": "the scheduler name of our own kube-scheduler, which members get in mode scheduler",
    "scheduler_config": "configuration file of our own kube-scheduler, to be checked at the start",
    "scheduler_users": "as whom those schedulers bind",
    "controller_users": "who makes the pods of workloads; a name may end in * for all that begin so",
    "owned_schedulers": "scheduler names whose pods are members of `default` when they name no queue",
    "policies_namespace": "the namespace of the ConfigMap with the scheduling policies",
    "policies_name": "the name of that ConfigMap",
    "notices_dir": "folder with file url, to which changes of queues are sent; empty: none are",
    "kueue_label": "whether label kueue.x-k8s.io/queue-name names a queue",
    "managed_namespaces": "labels of the namespaces that are ours at all, as in the webhooks; empty: all",
    "binding_namespaces": "whether a namespace that names a queue allows no other but those below it",
    "depth_limit": "levels of queues below root",
    "writers": "threads that write to the API server, besides those of statuses, the guard and drains",
    "request_timeout": "the API server's own --request-timeout, in seconds",
    "drain_rate": "evictions a second of the whole server, at most",
    "drain_in_flight": "pods that are evicted and not gone yet, of the whole server, at most",
    "drain_grace_limit": "seconds that a terminating pod counts as in flight, at most",
    "window_soon": "minutes before a change window begins that an event and a notice say so; 0: none does",
    "queue_metrics": "whether /metrics names queues, to all clients of the port of health_bind",
    "log_level": "which lines of the log are written: those of this level and above",
}


def read(arguments: Sequence[str], *, env: Mapping[str, str] = os.environ) -> Settings:
    """The settings of a command line. Raises `SettingsError`; exits for --help and unknown flags."""
    flags = vars(_parser().parse_args(arguments))
    file = flags.pop("config") or env.get(f"{PREFIX}CONFIG")
    values: dict[str, Any] = _from_file(Path(file)) if file else {}
    for name in Settings.__struct_fields__:
        for where, value in ((PREFIX + name.upper(), env.get(PREFIX + name.upper())), ("flag", flags[name])):
            if value is not None:
                values[name] = _parse(name, value, where=where)
    service_ip = env.get(f"{PREFIX}SERVICE_HOST")
    if service_ip:  # kubelet's, in a pod: the clusterIP of a Service named sluice
        values["hosts"] = [*_as_list(values.get("hosts")), service_ip]
    try:
        return _settings(values)
    except msgspec.ValidationError as exc:
        raise SettingsError(str(exc).replace(" - at `$.", ", at setting `")) from exc


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sluice serve", description="Serve the extender and the webhooks.")
    parser.add_argument("--config", metavar="FILE", help="YAML file with any of these settings")
    for name in Settings.__struct_fields__:
        parser.add_argument(f"--{name.replace('_', '-')}", dest=name, metavar="VALUE", help=_help(name))
    return parser


def _help(name: str) -> str:
    valid = RANGES.get(name)
    if valid:
        return f"{_HELP[name]}; from {valid.first} to {valid.last}"
    return f"{_HELP[name]}; {any_of(CHOICES[name])}" if name in CHOICES else _HELP[name]


def _shown(value: Any) -> str:
    """A value as an error shows it: a list by its items."""
    return ", ".join(map(repr, value)) or "empty" if isinstance(value, tuple) else repr(value)


def _from_file(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, ValueError, yaml.YAMLError) as exc:
        raise SettingsError(f"config: {path} cannot be read: {exc}") from exc
    if not isinstance(content, dict | None):
        raise SettingsError(f"config: {path} is not a map of settings")
    values = {str(key).replace("-", "_"): value for key, value in (content or {}).items()}
    selector = values.get("managed_namespaces")
    if isinstance(selector, dict):
        values["managed_namespaces"] = json.dumps(selector)
    return values


def _as_list(hosts: Any) -> list[Any]:
    """The hosts so far; `Settings` refuses what is no list."""
    return list(hosts) if isinstance(hosts, list | tuple) else [] if hosts is None else [hosts]


def _parse(name: str, value: str, *, where: str) -> Any:
    default = getattr(Settings(), name)
    if isinstance(default, bool):
        if value.lower() not in {"true", "false"}:
            raise SettingsError(f"{name}: {value!r} ({where}) is not valid; expected true or false")
        return value.lower() == "true"
    if isinstance(default, int):
        if not _is_number(value):
            raise SettingsError(f"{name}: {value!r} ({where}) is not valid; expected {RANGES[name]}")
        return int(value)
    if isinstance(default, tuple):
        return [word.strip() for word in value.split(",") if word.strip()]
    return value


def _bind_host(bind: str) -> str | None:
    """The host of HOST:PORT, an IPv6 address without its brackets; None if the text is no HOST:PORT."""
    host, _, port = bind.rpartition(":")
    if not host or not _is_number(port) or not 1 <= int(port) <= 65535:
        return None
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


def _is_host(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return _DNS.fullmatch(host) is not None and len(host) <= 253
    return True


def _is_https(url: str) -> bool:
    if not url:
        return True
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    named = parts.hostname is not None and _is_host(parts.hostname)
    return parts.scheme == "https" and named and port != 0 and parts.path in {"", "/"}


def _is_selector(text: str) -> bool:
    try:
        read_selector(text)
    except BadSelector:
        return False
    return True


def _is_authority(path: str) -> bool:
    try:
        return bool(x509.load_pem_x509_certificates(Path(path).read_bytes()))
    except (OSError, ValueError):
        return False


def _is_file(path: str) -> bool:
    return not path or (Path(path).is_file() and os.access(path, os.R_OK))
