"""The values of the chart: one row each, in the order of values.yaml.

| a value has | and then                                                                                   |
|-------------|-----------------------------------------------------------------------------------------------|
| `places`    | it stands there in the manifests, and its default is read from there; a field that is not in|
|             | the manifests is written once the value is not empty, and its default is in the table      |
| `replaces`  | `by` stands for this text wherever it is in the manifests, and the text is the default     |
| `setting`   | the server is given it, unless it is the default                                           |
| none        | a row of `OPTIONS`, a helper or a check in `files` reads it; its default is in the table   |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from server.settings import CHOICES, RANGES, Settings

Path = tuple[str, ...]
_POD: Path = ("spec", "template", "spec")
_CONTAINER: Path = (*_POD, "containers", "sluice")
NAME = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
_SUBDOMAIN = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_SUBDOMAIN_NAME = {"type": "string", "maxLength": 253, "pattern": f"^{_SUBDOMAIN}$"}
_OBJECT = {"type": "object"}
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
#: Without tag and digest. Capitals are not valid in the name of an image.
_WORD = "[a-z0-9._-]+"
_REPOSITORY = f"{_WORD}(:[0-9]+/{_WORD})?(/{_WORD})*"
_TAG = "[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
_NUMBER = "[0-9]+(\\.[0-9]+)?"
_QUANTITY = {
    "type": ["string", "number"],
    "minimum": 0,
    "pattern": f"^{_NUMBER}([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$",
}
#: 256m is a quarter of a byte: m stands for a thousandth, and Mi for 1024 * 1024.
_BYTES = {**_QUANTITY, "pattern": f"^{_NUMBER}([KMGTPE]i|[kMGTPE]|[eE][+]?[0-9]+)?$"}
_AMOUNTS = {
    "type": "object",
    "properties": {"memory": _BYTES, "ephemeral-storage": _BYTES},
    "additionalProperties": _QUANTITY,
}
_RESOURCES = {
    "type": "object",
    "properties": {
        "requests": _AMOUNTS,
        "limits": _AMOUNTS,
        "claims": {"type": "array", "items": _OBJECT},
    },
    "additionalProperties": False,
}
_TOLERATION = {
    "type": "object",
    "properties": {
        "key": {"type": "string"},
        "operator": {"enum": ["Exists", "Equal", "Lt", "Gt"]},
        "value": {"type": "string"},
        "effect": {"enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]},
        "tolerationSeconds": {"type": "integer"},
    },
    "additionalProperties": False,
}
_PULL_SECRET = {
    "type": "object",
    "properties": {"name": _SUBDOMAIN_NAME},
    "required": ["name"],
    "additionalProperties": False,
}
_ISSUER = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("name", "kind", "group")},
    "required": ["name"],
    "additionalProperties": False,
}
#: `files/checks.yaml` refuses what has this form and is no range.
_RANGE = {"type": "string", "pattern": "^[0-9a-fA-F.:]+/[0-9]{1,3}$"}
_LABEL_KEY = {"type": "string", "minLength": 1, "maxLength": 317}
_SELECTOR = {
    "type": "object",
    "properties": {
        "matchLabels": {**_TEXTS, "propertyNames": _LABEL_KEY},
        "matchExpressions": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "key": _LABEL_KEY,
                    "operator": {"enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
                    "values": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["key", "operator"],
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
_SCHEDULERS = {"type": "array", "items": {"type": "string", "pattern": NAME}, "uniqueItems": True}


@dataclass(frozen=True)
class ManifestField:
    """A field of the manifest of this kind and name. `write`: what Helm writes there, if not the value."""

    kind: str
    path: Path
    name: str = "sluice"
    write: str = ""


@dataclass(frozen=True, kw_only=True)
class Value:
    """`name` is dotted. `read` makes the default of what stands at a place; `write` is the Helm expression
    for it there, where that is not the value itself. `required`: it has no default, and `files/checks.yaml`
    refuses it by name while it is empty.
    """

    name: str
    help: str
    schema: Mapping[str, Any]
    places: tuple[ManifestField, ...] = ()
    replaces: str = ""
    by: str = ""
    setting: str = ""
    default: Any = None
    read: Callable[[Any], Any] = field(default=lambda value: value)
    write: str = ""
    required: bool = False


def _image(part: int) -> Callable[[Any], Any]:
    return lambda image: image.rpartition(":")[part]


_SCHEDULER_IMAGE = ManifestField("Deployment", (*_POD, "containers", "kube-scheduler", "image"))
_IMAGE = ManifestField("Deployment", (*_CONTAINER, "image"))
#: The arguments of the server by flag; `templates.parametrised` finds the value after the flag.
ARGUMENTS: Path = (*_CONTAINER, "args")

VALUES: tuple[Value, ...] = (
    Value(
        name="replicas",
        help="Each replica serves; one of them also runs the queue controller.",
        schema={"type": "integer", "minimum": 1},
        places=(ManifestField("Deployment", ("spec", "replicas")),),
    ),
    Value(
        name="image.repository",
        help="The image that you built and pushed, with its registry and without a tag. It has to be set.",
        schema={"type": "string", "pattern": f"^({_REPOSITORY})?$"},
        required=True,
        places=(_IMAGE,),
        read=_image(0),
        write='include "sluice.image" . | quote',
    ),
    Value(
        name="image.tag",
        help="",
        schema={"type": "string", "pattern": f"^({_TAG})?$"},
        places=(_IMAGE,),
        read=_image(2),
        write='include "sluice.image" . | quote',
    ),
    Value(
        name="image.digest",
        help="sha256:...; counts instead of the tag.",
        schema={"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
        default="",
    ),
    Value(
        name="image.pullPolicy",
        help="Always, IfNotPresent or Never; empty: what Kubernetes does by the tag.",
        schema={"enum": ["", "Always", "IfNotPresent", "Never"]},
        places=(ManifestField("Deployment", (*_CONTAINER, "imagePullPolicy")),),
        default="",
    ),
    Value(
        name="image.pullSecrets",
        help="[{name: NAME}], Secrets in the same namespace.",
        schema={"type": "array", "items": _PULL_SECRET},
        places=(ManifestField("Deployment", (*_POD, "imagePullSecrets")),),
        default=[],
    ),
    Value(
        name="namespace",
        help="Where the server runs. Nothing in it is ever a member of a queue, so it is its own.\n"
        "Helm's --namespace is the same one, or default: then the chart makes this one, with a label for\n"
        "pod security, and its removal takes it away.",
        schema={"type": "string", "pattern": NAME},
        replaces="sluice-system",
        by="{{ .Values.namespace }}",
    ),
    Value(
        name="clusterIP",
        help="A free address of the cluster's service range, for a scheduler that has no cluster DNS.\n"
        "Empty: Kubernetes chooses one, which lasts as long as the Service.",
        schema={"type": "string", "anyOf": [{"const": ""}, {"format": "ipv4"}, {"format": "ipv6"}]},
        places=(
            ManifestField("Service", ("spec", "clusterIP")),
            ManifestField(
                "Certificate", ("spec", "ipAddresses"), "sluice-serving", "list .Values.clusterIP | toYaml"
            ),
        ),
        default="",
    ),
    Value(
        name="resources",
        help="No limit of cpu: a throttled server delays every bind of a member.",
        schema=_RESOURCES,
        places=(ManifestField("Deployment", (*_CONTAINER, "resources")),),
    ),
    Value(
        name="priorityClassName",
        help="",
        schema={"type": "string", "maxLength": 253, "pattern": f"^({_SUBDOMAIN})?$"},
        places=(ManifestField("Deployment", (*_POD, "priorityClassName")),),
    ),
    Value(
        name="nodeSelector",
        help="",
        schema=_TEXTS,
        places=(ManifestField("Deployment", (*_POD, "nodeSelector")),),
        default={},
    ),
    Value(
        name="tolerations",
        help="",
        schema={"type": "array", "items": _TOLERATION},
        places=(ManifestField("Deployment", (*_POD, "tolerations")),),
        default=[],
    ),
    Value(
        name="affinity",
        help="",
        schema=_OBJECT,
        places=(ManifestField("Deployment", (*_POD, "affinity")),),
        default={},
    ),
    Value(
        name="podAnnotations",
        help="",
        schema=_TEXTS,
        places=(ManifestField("Deployment", ("spec", "template", "metadata", "annotations")),),
        default={},
    ),
    Value(
        name="mode",
        help="extender: the scheduler that you have asks the server, by an entry in its configuration.\n"
        "scheduler: a kube-scheduler of our own in the same pods takes the members, for clusters whose\n"
        "scheduler cannot be configured. gate: nothing in the scheduling path. See docs/concepts/modes.md.",
        schema={"enum": ["extender", "scheduler", "gate"]},
        default="extender",
    ),
    Value(
        name="schedulerImage.repository",
        help="Our own kube-scheduler, in mode scheduler. It must not be newer than the API server.",
        schema={"type": "string", "pattern": f"^{_REPOSITORY}$"},
        places=(_SCHEDULER_IMAGE,),
        read=_image(0),
        write='include "sluice.schedulerImage" .',
    ),
    Value(
        name="schedulerImage.tag",
        help="Kubernetes' own tags begin with v. A digest may follow: v1.33.1@sha256:...",
        schema={"type": "string", "pattern": f"^{_TAG}(@sha256:[0-9a-f]{{64}})?$"},
        places=(_SCHEDULER_IMAGE,),
        read=_image(2),
        write='include "sluice.schedulerImage" .',
    ),
    Value(
        name="schedulers",
        help="Schedulers whose members are the server's: in mode extender those whose configuration has our\n"
        "entry, in mode scheduler those whose members our own scheduler takes.",
        schema={**_SCHEDULERS, "minItems": 1},
        places=(ManifestField("Deployment", (*ARGUMENTS, "--schedulers")),),
        read=lambda text: text.split(","),
        write='join "," .Values.schedulers | quote',
    ),
    Value(
        name="ownedSchedulers",
        help="A pod of one of these schedulers is a member of queue default when it names no queue.",
        schema=_SCHEDULERS,
        # In conditions of webhooks; sluice is our own kube-scheduler.
        replaces="in ['volcano', 'sluice']",
        by='in [{{ include "sluice.quoted" (append .Values.ownedSchedulers "sluice") }}]',
        default=["volcano"],
        setting="owned_schedulers",
    ),
    Value(
        name="kueueLabel",
        help="Whether label kueue.x-k8s.io/queue-name names a queue too.",
        schema={"type": "boolean"},
        replaces="['volcano.sh/queue-name'",
        by="['volcano.sh/queue-name'{{ if .Values.kueueLabel }}, 'kueue.x-k8s.io/queue-name'{{ end }}",
        default=False,
        setting="kueue_label",
    ),
    Value(
        name="bindingNamespaces",
        help="Whether a namespace that names a queue allows no other but those below it. Without it a stop\n"
        "is opt-out: a user names another queue (docs/operating/keep-users-apart.md).",
        schema={"type": "boolean"},
        default=False,
        setting="binding_namespaces",
    ),
    Value(
        name="managedNamespaces",
        help="The namespaces that are ours at all: matchLabels and matchExpressions, as in a LabelSelector.\n"
        "Empty: every namespace. In all others nothing is in a queue, and pods cost the API server nothing\n"
        '(manifests/managed-namespaces, whose selector is {matchLabels: {sluice.dev/managed: "true"}}).',
        schema=_SELECTOR,
        # `chart` writes it into webhooks, and `files/unmanaged.yaml` into the bindings of the policy.
        places=(ManifestField("Deployment", (*ARGUMENTS, "--managed-namespaces")),),
        read=lambda _example: {},
        write=".Values.managedNamespaces | toJson | quote",
    ),
    Value(
        name="policies.namespace",
        help="The ConfigMap with the scheduling policies.",
        schema={"type": "string", "pattern": NAME},
        replaces="volcano-system",
        by="{{ .Values.policies.namespace }}",
        setting="policies_namespace",
    ),
    Value(
        name="policies.name",
        help="",
        schema=_SUBDOMAIN_NAME,
        replaces="volcano-scheduler-configmap",
        by="{{ .Values.policies.name }}",
        setting="policies_name",
    ),
    Value(
        name="certificates.issuer",
        help="own: the server issues its certificates. cert-manager: that does, and the server has no right\n"
        "to any Secret (manifests/cert-manager).",
        schema={"enum": ["own", "cert-manager"]},
        default="own",
    ),
    Value(
        name="certificates.issuerRef",
        help="With cert-manager: who signs the serving certificate; as it is, an authority made for it.",
        schema=_ISSUER,
        places=(ManifestField("Certificate", ("spec", "issuerRef"), "sluice-serving"),),
    ),
    Value(
        name="clientCertificates",
        help="Whether callers have to show a certificate. Before: ConfigMap sluice-callers with their\n"
        "authority as ca.crt, and certificates for kube-apiserver and kube-scheduler\n"
        "(manifests/client-certificates); in mode scheduler that of our own kube-scheduler in Secret\n"
        "sluice-kube-scheduler.",
        schema={"type": "boolean"},
        default=False,
    ),
    Value(
        name="notices",
        help="Whether changes of queues are sent to the URL in Secret sluice-notices (manifests/notices).",
        schema={"type": "boolean"},
        default=False,
    ),
    Value(
        name="networkPolicy.enabled",
        help="Whether only these addresses reach the server's port.",
        schema={"type": "boolean"},
        default=False,
    ),
    Value(
        name="networkPolicy.controlPlane",
        help="The nodes of the control plane, as ranges: kube-apiserver and kube-scheduler call from there.",
        schema={"type": "array", "items": _RANGE, "minItems": 1},
        places=(ManifestField("NetworkPolicy", ("spec", "ingress", "0", "from")),),
        read=lambda peers: [peer["ipBlock"]["cidr"] for peer in peers],
        write='include "sluice.ipBlocks" .Values.networkPolicy.controlPlane | trim',
    ),
    Value(
        name="queueReaders",
        help="Whether everybody who is logged in may read queues (manifests/queue-readers).",
        schema={"type": "boolean"},
        default=False,
    ),
    Value(
        name="monitoring.podMonitor",
        help="Whether the Prometheus operator is to scrape every replica; needs its definitions.\n"
        "With it come alerts, and a board for Grafana's sidecar (manifests/monitoring).",
        schema={"type": "boolean"},
        default=False,
    ),
    Value(
        name="monitoring.alerts",
        help="Whether the alerts of docs/operating/alerts.md come with it.",
        schema={"type": "boolean"},
        default=True,
    ),
    Value(
        name="crds.install",
        help="Whether the chart brings the definitions of Queue, PodGroup and Command, and updates them.\n"
        "Removing the release keeps them, and with them all queues.",
        schema={"type": "boolean"},
        default=True,
    ),
)


@dataclass(frozen=True)
class Option:
    """A folder of the manifests that counts where the condition holds.

    It is added to the others, or, where it builds upon them itself, built instead.
    """

    condition: str
    folder: str


OPTIONS: tuple[Option, ...] = (
    Option('and (eq .Values.mode "scheduler") (not .Values.clientCertificates)', "ways/scheduler"),
    Option('eq .Values.mode "gate"', "ways/gate"),
    Option('eq .Values.certificates.issuer "cert-manager"', "cert-manager"),
    Option(".Values.clientCertificates", "client-certificates"),
    Option(
        'and (eq .Values.mode "scheduler") .Values.clientCertificates', "ways/scheduler-client-certificates"
    ),
    Option(".Values.managedNamespaces", "managed-namespaces"),
    Option(".Values.notices", "notices"),
    Option(".Values.networkPolicy.enabled", "network-policy"),
    Option(".Values.queueReaders", "queue-readers"),
    Option(".Values.monitoring.podMonitor", "monitoring"),
)

#: Objects of these kinds are there only where the condition holds.
KINDS: Mapping[str, str] = {
    "CustomResourceDefinition": ".Values.crds.install",
    "PrometheusRule": ".Values.monitoring.alerts",
    "Namespace": "ne .Release.Namespace .Values.namespace",
}


#: Settings that the manifests take for granted: another value would contradict them.
FIXED = frozenset({"service", "webhook_url", "kubeconfig"})


#: What the server refuses in other settings, as far as a schema can say it.
_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    **{name: {"minimum": each.first, "maximum": each.last} for name, each in RANGES.items()},
    **{name: {"enum": list(words)} for name, words in CHOICES.items()},
    "hosts": {"items": {"type": "string", "pattern": "^[A-Za-z0-9:]([-A-Za-z0-9.:]*[A-Za-z0-9:])?$"}},
    "api_servers": {"items": {"type": "string", "pattern": "^https://[-A-Za-z0-9.:\\[\\]]+/?$"}},
    "api_server_callers": {"minItems": 1},
}
#: The server is given a list with commas between its items.
_ITEM = {"type": "string", "pattern": "^[^,]*[^, ][^,]*$"}


def settings_schema(given: frozenset[str]) -> Mapping[str, Any]:
    """The schema of value `settings`: all settings of the server but those that the chart gives it itself."""
    schemas, components = msgspec.json.schema_components([Settings])
    properties = components[schemas[0]["$ref"].rpartition("/")[2]]["properties"]
    own = given | FIXED | {value.setting for value in VALUES}
    rest = {
        name: {**schema, **_SETTINGS.get(name, {})} for name, schema in properties.items() if name not in own
    }
    for name, schema in rest.items():
        schema.pop("default", None)
        if schema["type"] == "array":
            schema["items"] = _SETTINGS.get(name, {}).get("items", _ITEM)
        if name in RANGES:
            schema["description"] = f"{RANGES[name]}"
    return {"type": "object", "additionalProperties": False, "properties": rest}
