"""The manifests as `kubectl kustomize` builds them: alone, and with one optional folder each."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]


class KustomizeError(Exception):
    """kubectl could not build a folder; the message is its own."""


def build(kubectl: Path, folder: Path) -> list[Manifest]:
    """The objects of a folder with a kustomization. Raises KustomizeError."""
    done = subprocess.run([kubectl, "kustomize", folder], capture_output=True, text=True, check=False)
    if done.returncode:
        raise KustomizeError(f"kubectl kustomize {folder} failed: {done.stderr.strip()}")
    return [document for document in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if document]


def build_with(kubectl: Path, manifests: Path, folders: Sequence[str]) -> list[Manifest]:
    """The manifests with these folders of theirs, as a user's own kustomization names them.

    A folder that builds upon the manifests itself counts instead of them; there may be one such.
    """
    with tempfile.TemporaryDirectory() as directory:
        root = Path(os.path.relpath(manifests, Path(directory).resolve()))
        listing: dict[str, list[str]] = {"resources": [], "components": []}
        whole = [str(root)]
        for folder in folders:
            content: Manifest = yaml.safe_load((manifests / folder / "kustomization.yaml").read_text())
            if content["kind"] == "Component":
                listing["components"].append(str(root / folder))
            elif any(each.startswith("..") for each in content["resources"]):
                whole = [str(root / folder)]
            else:
                listing["resources"].append(str(root / folder))
        listing["resources"] = [*whole, *listing["resources"]]
        text = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", **listing}
        (Path(directory) / "kustomization.yaml").write_text(yaml.safe_dump(text))
        return build(kubectl, Path(directory))


def identity(manifest: Manifest) -> tuple[str, str, str]:
    """Kind, namespace and name."""
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace", ""), metadata["name"]
