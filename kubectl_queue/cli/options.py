"""The flags that verbs share, spelt and meant as in kubectl."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from kubectl_queue.cli import flag_values as values
from kubectl_queue.cli.flags import (
    Flag,
    bool_flag,
    duration_flag,
)

COMMAND = "kubectl queue"


class DryRun(StrEnum):
    """The values of --dry-run."""

    NONE = "none"
    CLIENT = "client"
    SERVER = "server"


class Output(StrEnum):
    """The values of -o."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    ICS = "ics"
    TEMPLATE = "template"


@dataclass(frozen=True)
class OutputTemplate:
    """A value of -o that is a template for kubectl, such as `jsonpath={.spec.weight}`."""

    text: str


#: The templates of kubectl's commands that change objects, and of `kubectl get`.
EDIT_TEMPLATES = ("jsonpath", "jsonpath-as-json", "jsonpath-file", "go-template", "go-template-file")
GET_TEMPLATES = (*EDIT_TEMPLATES, "custom-columns", "custom-columns-file")

_SECONDS = re.compile(r"\d+(ms|s|m|h)?", re.ASCII)
#: What a bare --dry-run stands for, as in kubectl.
UNCHANGED = "unchanged"


def _timeout(text: str) -> timedelta:
    if not _SECONDS.fullmatch(text):
        raise ValueError("it must be a single integer in seconds, or one with a unit (e.g. 1s | 2m | 3h)")
    return values.parse_duration(text)


def formats(*allowed: Output, templates: tuple[str, ...] = ()) -> Flag:
    """-o, with the formats that a verb can print."""

    def read(text: str) -> Output | OutputTemplate:
        name, sign, template = text.partition("=")
        if name in templates:
            if not (sign and template):
                raise ValueError(f"it needs a template or a file, as in -o {_EXAMPLES[name]}")
            return OutputTemplate(text)
        if text not in allowed:
            raise ValueError("allowed formats are: " + ", ".join((*allowed, *(f"{t}=" for t in templates))))
        return Output(text)

    more = f"; or by a template, as kubectl does: {', '.join(f'{name}=...' for name in templates)}"
    return Flag(
        name="output",
        short="o",
        default=None,
        read=read,
        value="|".join(allowed),
        help=f"How to print{more if templates else ''}.",
    )


_EXAMPLES = {
    "jsonpath": "jsonpath={.metadata.name}",
    "jsonpath-as-json": "jsonpath-as-json={.spec}",
    "jsonpath-file": "jsonpath-file=FILE",
    "go-template": "go-template={{.metadata.name}}",
    "go-template-file": "go-template-file=FILE",
    "custom-columns": "custom-columns=NAME:.metadata.name,WEIGHT:.spec.weight",
    "custom-columns-file": "custom-columns-file=FILE",
}


def _dry_run(text: str) -> str:
    if text != UNCHANGED and text not in DryRun.__members__.values():
        raise ValueError('it must be "none", "server", or "client"')
    return text


#: Which API server, and as whom: flags of kubectl, which are passed on to it unchanged.
ACCESS: tuple[Flag, ...] = (
    Flag(name="kubeconfig", value="FILE", help="The kubeconfig; else KUBECONFIG, else ~/.kube/config."),
    Flag(name="context", value="NAME", help="The context of the kubeconfig to use."),
    Flag(name="cluster", value="NAME", help="The cluster of the kubeconfig to use."),
    Flag(name="user", value="NAME", help="The user of the kubeconfig to use."),
    Flag(name="server", short="s", value="URL", help="The address of the API server."),
    Flag(name="token", value="TOKEN", help="Bearer token to authenticate with."),
    Flag(name="certificate-authority", value="FILE", help="The authority to trust, and no other."),
    Flag(name="client-certificate", value="FILE", help="The client certificate to authenticate with."),
    Flag(name="client-key", value="FILE", help="The key of the client certificate."),
    bool_flag("insecure-skip-tls-verify", "Do not check the server's certificate. Insecure."),
    Flag(name="tls-server-name", value="NAME", help="The name that the server's certificate has to have."),
    Flag(name="as", value="USER", help="User to impersonate."),
    Flag(
        name="as-group",
        value="GROUP",
        help="Group to impersonate; may be repeated.",
        repeated=True,
        default=(),
    ),
    Flag(name="as-uid", value="UID", help="UID to impersonate."),
)

#: Flags that every verb takes, spelt and meant as in kubectl.
COMMON: tuple[Flag, ...] = (
    *ACCESS,
    Flag(
        name="namespace",
        short="n",
        value="NAME",
        help=(
            "Where `why` and `policy explain` look for an object, `drain` for pods where you may not read "
            "all, and `uninstall` and `version` for the server; queues have no namespace."
        ),
    ),
    Flag(
        name="request-timeout",
        default=None,
        read=_timeout,
        value="DURATION",
        help="How long to wait for an answer (e.g. 5, 5s, 2m); 65s if not given, or 0.",
    ),
    bool_flag("help", "Print this and end.", short="h"),
)

_OBJECT_FORMATS = tuple(word for word in Output if word not in (Output.TEMPLATE, Output.ICS))
OUTPUT = formats(*_OBJECT_FORMATS, templates=EDIT_TEMPLATES)
GET_OUTPUT = formats(*_OBJECT_FORMATS, templates=GET_TEMPLATES)
SELECTOR = Flag(
    name="selector", short="l", value="SELECTOR", help="Labels of the queues, e.g. team=a,tier!=b."
)
ALL = bool_flag("all", "Every queue but root.")
NO_HEADERS = bool_flag("no-headers", "Print no headings.")
DRY_RUN = Flag(
    name="dry-run",
    default=DryRun.NONE.value,
    bare=UNCHANGED,
    read=_dry_run,
    value="none|client|server",
    help="client: only print what would be sent; server: have the server check it and change nothing.",
)
TIMEOUT = duration_flag(
    "timeout", "How long --wait waits; 0 is for ever. Default 60s.", default=timedelta(seconds=60)
)
