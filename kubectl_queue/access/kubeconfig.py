"""The kubeconfig: found, merged and narrowed to one context, as kubectl does it.

Promises
- `--kubeconfig`, else every file in `KUBECONFIG`, else `~/.kube/config`. Files of `KUBECONFIG`
  that are not there are passed over; that of `--kubeconfig` must be.
- Of two entries of one name the first is taken; paths in a file are relative to that file.
- `kubernetes.config` would do much the same, but to import it takes 0.5 s.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kubectl_queue.errors import ConfigError

_SECTIONS = {"clusters": "cluster", "contexts": "context", "users": "user"}
_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
# The one in C where there is one: a tenth of the time.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Entry = Mapping[str, Any]


@dataclass(frozen=True)
class Merged:
    """All files as one: entries by section and name."""

    current: str = ""
    sections: Mapping[str, dict[str, Entry]] = field(default_factory=lambda: {name: {} for name in _SECTIONS})


@dataclass(frozen=True)
class Context:
    """What a context leads to; both empty where there is no kubeconfig at all."""

    cluster: Entry
    user: Entry
    name: str = ""
    namespace: str = ""


def files(explicit: str, *, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The files to read, in order; ConfigError if the one that was asked for is not there."""
    if explicit:
        if not Path(explicit).exists():
            raise ConfigError(f"stat {explicit}: no such file or directory; --kubeconfig needs a file")
        return (Path(explicit),)
    listed = [Path(entry) for entry in environ.get("KUBECONFIG", "").split(os.pathsep) if entry]
    candidates = listed or [Path.home() / ".kube" / "config"]
    return tuple(path for path in candidates if path.exists())


def load(paths: tuple[Path, ...]) -> Merged:
    """Read and merge; ConfigError names the file that makes no sense."""
    sections: dict[str, dict[str, Entry]] = {name: {} for name in _SECTIONS}
    current = ""
    for path in paths:
        document = _read(path)
        current = current or str(document.get("current-context") or "")
        for section, key in _SECTIONS.items():
            for name, entry in _entries(document.get(section), key=key, path=path):
                sections[section].setdefault(name, entry)
    return Merged(current, sections)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        document = yaml.load(path.read_bytes(), Loader=_LOADER)  # noqa: S506 - both are safe loaders
    except OSError as exc:
        raise ConfigError(f'cannot read kubeconfig "{path}": {exc.strerror}') from exc
    except yaml.YAMLError as exc:
        line = " ".join(str(exc).split())
        raise ConfigError(f'error loading config file "{path}": {line}') from exc
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f'error loading config file "{path}": it is not a kubeconfig')
    return document


def _entries(listed: Any, *, key: str, path: Path) -> list[tuple[str, Entry]]:
    try:
        pairs = [(str(item["name"]), item.get(key) or {}) for item in listed or ()]
        return [(name, _located(entry, folder=path.parent)) for name, entry in pairs]
    except (TypeError, KeyError, AttributeError) as exc:
        raise ConfigError(
            f'error loading config file "{path}": each of its {key}s needs a name and a {key}'
        ) from exc


def _located(entry: Entry, *, folder: Path) -> Entry:
    """The entry with its paths, and its exec command if that is one, relative to its file."""
    found = dict(entry)
    for name in _PATHS:
        if found.get(name):
            found[name] = str(folder.absolute() / str(found[name]))
    program = found.get("exec")
    if isinstance(program, dict) and "/" in str(program.get("command", "")):
        found["exec"] = {**program, "command": str(folder.absolute() / str(program["command"]))}
    return found


def choose(merged: Merged, *, context: str = "", cluster: str = "", user: str = "") -> Context:
    """The cluster and user of a context (default: the current one), or of the names given instead."""
    name = context or merged.current
    chosen = merged.sections["contexts"].get(name, {})
    if context and not chosen:
        raise ConfigError(
            f"context was not found for specified context: {context}{_known(merged, 'contexts')}"
        )
    if name and not chosen and not cluster:
        raise ConfigError(
            f'current-context "{name}" does not exist{_known(merged, "contexts")}; '
            "choose one with: kubectl config use-context NAME"
        )
    wanted_cluster = cluster or str(chosen.get("cluster") or "")
    wanted_user = user or str(chosen.get("user") or "")
    return Context(
        _named(merged, "clusters", wanted_cluster, explicit=bool(cluster)),
        _named(merged, "users", wanted_user, explicit=bool(user)),
        name,
        str(chosen.get("namespace") or ""),
    )


def _named(merged: Merged, section: str, name: str, *, explicit: bool) -> Entry:
    found = merged.sections[section].get(name)
    if found is None and explicit:
        what = {
            "clusters": f'no server found for cluster "{name}"',
            "users": f'auth info "{name}" does not exist',
        }
        raise ConfigError(what[section] + _known(merged, section))
    return found or {}


def _known(merged: Merged, section: str) -> str:
    names = ", ".join(sorted(merged.sections[section])[:10])
    return f" (there are: {names})" if names else " (there are none)"
