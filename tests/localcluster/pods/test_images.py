"""Images are packed without a tool, and the same content gives the same image."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tarfile
from pathlib import Path
from typing import Any

from localcluster import build
from localcluster.pods import images


def root_with_a_program(folder: Path, *, modified: int) -> Path:
    folder.mkdir()
    (folder / "pause").write_text("a program")
    os.utime(folder / "pause", (modified, modified))
    return folder


def test_equal_content_gives_an_equal_layer_whenever_it_was_made(tmp_path: Path) -> None:
    first = images.write_layer(root_with_a_program(tmp_path / "a", modified=1), tmp_path / "a.tar.gz")
    second = images.write_layer(root_with_a_program(tmp_path / "b", modified=2), tmp_path / "b.tar.gz")
    assert (first.digest, first.content_digest) == (second.digest, second.content_digest)


def test_what_root_may_read_or_run_all_users_may_whatever_the_umask_was(tmp_path: Path) -> None:
    """The servers in the images are not root."""
    root = root_with_a_program(tmp_path / "a", modified=1)
    (root / "bin").mkdir(mode=0o700)
    for name, mode in {"run": 0o700, "read": 0o600}.items():
        (root / "bin" / name).touch(mode=mode)
    with tarfile.open(images.write_layer(root, tmp_path / "a.tar.gz").file) as tar:
        modes = {entry.name: entry.mode for entry in tar}
    assert [modes[f"bin{name}"] for name in ("", "/run", "/read")] == [0o755, 0o755, 0o644]


def test_the_digests_of_a_layer_are_those_of_the_file_and_of_what_is_in_it(tmp_path: Path) -> None:
    """containerd refuses an image for which they are not."""
    layer = images.write_layer(root_with_a_program(tmp_path / "a", modified=1), tmp_path / "a.tar.gz")
    packed = layer.file.read_bytes()
    assert layer.digest == hashlib.sha256(packed).hexdigest()
    assert layer.content_digest == hashlib.sha256(gzip.decompress(packed)).hexdigest()


def test_an_archive_has_the_image_under_its_name_with_its_layers_in_order(tmp_path: Path) -> None:
    layers = [
        images.write_layer(root_with_a_program(tmp_path / name, modified=1), tmp_path / f"{name}.tar.gz")
        for name in ("a", "b")
    ]
    config = {"Entrypoint": ["/pause"]}
    with tarfile.open(images.write_archive(tmp_path / "x.tar", "sluice.local/x:1", layers, config)) as tar:

        def read(path: str) -> dict[str, Any]:
            file = tar.extractfile(path)
            assert file is not None
            document: dict[str, Any] = json.load(file)
            return document

        [reference] = read("index.json")["manifests"]
        assert reference["annotations"]["io.containerd.image.name"] == "sluice.local/x:1"
        manifest = read(f"blobs/sha256/{reference['digest'].removeprefix('sha256:')}")
        assert [each["digest"] for each in manifest["layers"]] == [
            f"sha256:{layer.digest}" for layer in layers
        ]


def test_the_servers_image_has_the_name_that_the_manifests_give_it() -> None:
    """containerd stores a name without a registry under the default one, where kubelet looks for it."""
    assert images.server_image().startswith("docker.io/library/sluice:")


def test_our_own_schedulers_image_has_the_name_that_the_manifests_give_it() -> None:
    """It stands in the kustomization beside the server's."""
    assert images.scheduler_image() == f"registry.k8s.io/kube-scheduler:{build.KUBERNETES}"
