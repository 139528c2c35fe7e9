"""The whole chart: a folder for Helm, and the same as an archive."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from localcluster import build
from queues.managed_namespaces import MANAGED_LABEL
from release.archives import tar_gz
from release.chart import kustomize, template
from release.chart.kustomize import Manifest, identity
from release.chart.values import ARGUMENTS, KINDS, OPTIONS, VALUES, ManifestField, Value, settings_schema
from release.chart.variants import ABSENT, Block, HelmExpression, Optional, edit, merge

ROOT = Path(__file__).parent.parent.parent
FILES = Path(__file__).with_name("files")
NAME = "sluice"
#: Helm leaves an object with this annotation in the cluster when the release is removed.
KEEP = {"helm.sh/resource-policy": "keep"}
#: What `files` has instead: it depends on the number of requirements.
BY_HAND = frozenset({("ValidatingAdmissionPolicyBinding", "", "sluice-unmanaged")})
HEADER = "# Made from manifests/, where the reasons of each line stand.\n"


def build_chart(root: Path, target: Path, *, time: int, repository: str = "") -> Path:
    """The archive of the chart in `target`, beside the chart as a folder.

    `repository`: where a release pushes its image, which the chart then names unless a value says otherwise.

    Raises KustomizeError, and BuildFailed if there is no kubectl and none can be built.
    """
    shutil.rmtree(target / NAME, ignore_errors=True)
    kubectl = build.binary("kubectl", say=print)
    return write_archive(write_chart(root, kubectl, target, repository=repository), target, time=time)


def write_chart(root: Path, kubectl: Path, target: Path, *, repository: str = "") -> Path:
    """Write the chart of the checkout `root` as the folder `sluice` in `target`. Raises KustomizeError."""
    manifests = root / "manifests"
    base = kustomize.build(kubectl, manifests)
    others = [
        (option.condition, kustomize.build_with(kubectl, manifests, [option.folder])) for option in OPTIONS
    ]
    chart = target / NAME
    (chart / "templates").mkdir(parents=True)
    builds = [base, *(other for _, other in others)]
    defaults = {**defaults_of(builds), **({"image.repository": repository} if repository else {})}
    for name, text in {
        "Chart.yaml": chart_yaml(root),
        "values.yaml": values_yaml(defaults),
        "values.schema.json": json.dumps(schema(builds), indent=1) + "\n",
        "templates/_environment.tpl": environment(defaults),
        **{f"templates/{name}": text for name, text in templates(base, others).items()},
        **{f"templates/{file.name}": file.read_text() for file in sorted(FILES.iterdir())},
    }.items():
        (chart / name).write_text(text)
    return chart


def write_archive(chart: Path, target: Path, *, time: int) -> Path:
    """The folder as `NAME-VERSION.tgz`. `time`: the seconds since 1970 that all its files have."""
    version = yaml.safe_load((chart / "Chart.yaml").read_text())["version"]
    archive = target / f"{NAME}-{version}.tgz"
    archive.write_bytes(tar_gz(chart, time=time))
    return archive


def templates(
    base: Sequence[Manifest], others: Sequence[tuple[str, Sequence[Manifest]]]
) -> Mapping[str, str]:
    """The text of each template by its file name: one object each."""
    builds = [(condition, _by_identity(other)) for condition, other in others]
    default = _by_identity(base)
    tokens = {value.replaces: value.by for value in VALUES if value.replaces}
    texts = {}
    for key in dict.fromkeys([*default, *(key for _, other in builds for key in other)]):
        if key in BY_HAND:
            continue
        tree = merge(default.get(key, ABSENT), [(c, other.get(key, ABSENT)) for c, other in builds])
        kind, _, name = key
        text = template.document(tree, tokens=tokens)
        condition = KINDS.get(kind)
        texts["-".join([kind.lower(), *([name] if kind != "Namespace" else [])]) + ".yaml"] = HEADER + (
            f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n" if condition else text
        )
    return texts


def _by_identity(manifests: Iterable[Manifest]) -> dict[tuple[str, str, str], Any]:
    return {identity(manifest): parametrised(manifest) for manifest in manifests}


def parametrised(manifest: Manifest) -> Any:
    """The manifest with the expressions of values in it."""
    tree: Any = manifest
    for value in VALUES:
        for place in value.places:
            if _is_at(manifest, place.kind, place.name):
                tree = edit(tree, partial(_written_at, value, place), place.path)
    if manifest["kind"] == "CustomResourceDefinition":
        tree = edit(tree, lambda old: {**({} if old is ABSENT else old), **KEEP}, ("metadata", "annotations"))
    if manifest["kind"].endswith("WebhookConfiguration"):
        tree = edit(tree, lambda hooks: [_narrowed(hook) for hook in hooks], ("webhooks",))
    if _is_at(manifest, "Deployment"):
        lines = 'include "sluice.environment" . | trim'
        tree = edit(tree, lambda env: [*env, Optional(lines, Block(lines))], (*ARGUMENTS[:-1], "env"))
    return tree


def _narrowed(hook: Manifest) -> Manifest:
    """The entry with the selector of value `managedNamespaces` in place of its example, if it has that."""
    selector = hook.get("namespaceSelector", {})
    if MANAGED_LABEL not in selector.get("matchLabels", {}):
        return hook
    labels, expressions = (
        Optional(name, Block(f"toYaml {name}"))
        for name in (
            ".Values.managedNamespaces.matchLabels",
            ".Values.managedNamespaces.matchExpressions",
        )
    )
    narrowed = {"matchLabels": labels, "matchExpressions": [*selector["matchExpressions"], expressions]}
    return {**hook, "namespaceSelector": narrowed}


def _is_at(manifest: Manifest, kind: str, name: str = NAME) -> bool:
    return (manifest["kind"], manifest["metadata"]["name"]) == (kind, name)


def _written_at(value: Value, place: ManifestField, old: Any) -> Any:
    """What the template has in a place that has `old` in the manifests."""
    written = Block(place.write) if place.write else _written(value)
    return Optional(f".Values.{value.name}", written) if old is ABSENT else written


def _written(value: Value) -> HelmExpression | Block:
    if value.write:
        is_block = value.write.endswith("trim")
        return Block(value.write) if is_block else HelmExpression(value.write)
    if value.schema.get("type") in ("object", "array"):
        return Block(f"toYaml .Values.{value.name}")
    quoted = "" if value.schema.get("type") in ("integer", "boolean") else " | quote"
    return HelmExpression(f".Values.{value.name}{quoted}")


def defaults_of(builds: Sequence[Sequence[Manifest]]) -> Mapping[str, Any]:
    """The default of each value by its name, in the order of the table: of the first build that has it."""
    defaults = {value.name: "" if value.required else _default(value, builds) for value in VALUES}
    return defaults | {"settings": {}}


def _default(value: Value, builds: Sequence[Sequence[Manifest]]) -> Any:
    for place, manifests in product(value.places, builds):
        found: list[Any] = []
        for manifest in manifests:
            if _is_at(manifest, place.kind, place.name):
                edit(manifest, partial(_note, found), place.path)
        if found and found[0] is not ABSENT:
            return value.read(found[0])
    return value.default if value.default is not None else value.replaces


def _note(found: list[Any], old: Any) -> Any:
    found.append(old)
    return old


def chart_yaml(root: Path) -> str:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    content = {
        "apiVersion": "v2",
        "name": NAME,
        "description": project["description"],
        "type": "application",
        "version": project["version"],
        "appVersion": project["version"],
        "kubeVersion": ">=1.30.0-0",  # admission policies are stable there
    }
    return yaml.safe_dump(content, sort_keys=False)


_SETTINGS_HELP = (
    "Other settings of the server (docs/reference/settings.md), by their names, e.g. drain_rate: 50."
)


def values_yaml(defaults: Mapping[str, Any]) -> str:
    help_of = {value.name: value.help for value in VALUES} | {"settings": _SETTINGS_HELP}
    lines: list[str] = ["# The values of the chart, with their defaults. values.schema.json has their types."]
    group = ""
    for name, default in defaults.items():
        prefix, _, last = name.rpartition(".")
        if prefix != group:
            lines += [f"{prefix}:"] if prefix else []
            group = prefix
        indent = "  " if prefix else ""
        lines += [f"{indent}# {line}" for line in help_of[name].splitlines()]
        lines += [indent + line for line in _default_lines(last, default)]
    return "\n".join(lines) + "\n"


def _default_lines(key: str, default: Any) -> Sequence[str]:
    if isinstance(default, Mapping) and default:
        return yaml.safe_dump({key: default}, sort_keys=False).splitlines()
    return [f"{key}: {template.scalar(default) if isinstance(default, str) else json.dumps(default)}"]


def schema(builds: Sequence[Sequence[Manifest]]) -> Mapping[str, Any]:
    """The JSON schema of the values: what is not in it is refused by name."""
    root = _closed_object()
    for value in VALUES:
        *groups, last = value.name.split(".")
        properties = root["properties"]
        for group in groups:
            properties = properties.setdefault(group, _closed_object())["properties"]
        properties[last] = {**value.schema, **({"description": value.help} if value.help else {})}
    arguments: list[list[str]] = []
    for deployment in (each for manifests in builds for each in manifests if _is_at(each, "Deployment")):
        edit(deployment, partial(_note, arguments), ARGUMENTS)
    flags = (word[2:].partition("=")[0] for words in arguments for word in words if word.startswith("--"))
    given = frozenset(flag.replace("-", "_") for flag in flags)
    root["properties"]["settings"] = settings_schema(given)
    root["properties"]["global"] = {"type": "object"}  # Helm's own, of a chart that has this one in it
    return {"$schema": "https://json-schema.org/draft-07/schema#", **root}


def _closed_object() -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def environment(defaults: Mapping[str, Any]) -> str:
    """The helper that writes settings as environment variables of the server."""
    lines = ['{{- define "sluice.environment" -}}']
    for value in VALUES:
        if value.setting:
            default = json.dumps(defaults[value.name], separators=(",", ":"))
            lines += [
                f"{{{{- if ne (toJson .Values.{value.name}) `{default}` }}}}",
                f"- name: SLUICE_{value.setting.upper()}",
                f'  value: {{{{ include "sluice.setting" .Values.{value.name} }}}}',
                "{{- end }}",
            ]
    lines += [
        "{{- range $name, $value := .Values.settings }}",
        "- name: SLUICE_{{ upper $name }}",
        '  value: {{ include "sluice.setting" $value }}',
        "{{- end }}",
        "{{- end }}",
    ]
    return "\n".join(lines) + "\n"
