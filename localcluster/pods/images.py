"""Images for containerd without a registry, as OCI archives: `pause`, the server from this checkout, and
kube-scheduler for mode `scheduler`.

| layer of the server's image | from                                                    | made               |
|-----------------------------|---------------------------------------------------------|--------------------|
| Python                      | Debian's packages and those of `uv.lock`, with bytecode | once per lock file |
| server                      | this checkout, with bytecode                            | at each start      |

`image_builder` builds `release/Containerfile` itself, which takes too long for each start of a cluster.

Invariants
- The images have the names in `manifests/deployment` and `manifests/ways/scheduler`, so that the manifests
  run unchanged.
- The server's has the entry point of `release/Containerfile`, and the same packages, of which
  `release/slim.py` leaves the same. Its base is another one: a registry is needed for that.
- kube-scheduler's is this control plane's own binary, and nothing else.
- `uv` checks every package against the hash in the lock file.
- A layer is written under another name and then renamed; equal input gives an equal layer.
- Nothing is imported from here by the server, and no file of the checkout is copied that the wheel does not
  have.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from localcluster import build
from localcluster.build import Say
from localcluster.exceptions import BuildFailed
from localcluster.layout import ROOT
from localcluster.pods import binaries, packages

#: The end `.local` is nobody's, so no registry can be asked for it.
PAUSE = "sluice.local/pause:1"
DEPLOYMENT = ROOT / "manifests" / "deployment" / "deployment.yaml"
SCHEDULER_MODE = ROOT / "manifests" / "ways" / "scheduler" / "kustomization.yaml"
PYTHON = "/usr/bin/python3.11"
SITE = "usr/local/lib/python3.11/dist-packages"
ENTRY_POINT = f"#!{PYTHON}\nimport sys\nfrom server.main import main\nsys.exit(main())\n"
#: Of the Debian packages; nothing reads them in a container.
UNUSED = ("usr/share/doc", "usr/share/man", "usr/share/locale")
#: Run in the image: removes what nothing imports, and compiles the rest.
SLIM = ROOT / "release" / "slim.py"
#: Packages for the Python of the image, whichever Python this is.
FOR_THE_IMAGE = ("--python-version=3.11", "--python-platform=x86_64-manylinux_2_28", "--only-binary=:all:")
#: How layers that the cache keeps are made: those of before, closed to other users, are made anew.
LAYERS = "read by all users"
MEDIA_TYPE = "application/vnd.oci.image"


@dataclass(frozen=True)
class Layer:
    """A layer's file (tar, gzip), its digest, and the digest of what is in the gzip."""

    file: Path
    digest: str
    content_digest: str


def server_image(deployment: Path = DEPLOYMENT) -> str:
    """The image that the manifests name, as containerd stores it."""
    manifest = yaml.safe_load(deployment.read_text())
    [container] = manifest["spec"]["template"]["spec"]["containers"]
    image: str = container["image"]
    return image if "/" in image else f"docker.io/library/{image}"


def ensure_pause(folder: Path, program: Path) -> Path:
    """The archive of the image `pause`, written to `folder`."""
    root = _empty(folder / "pause-root")
    shutil.copy(program, root / "pause")
    layer = write_layer(root, folder / "pause.tar.gz")
    shutil.rmtree(root)
    return write_archive(
        folder / "pause.tar", PAUSE, [layer], {"Entrypoint": ["/pause"], "User": "65532:65532"}
    )


def scheduler_image(kustomization: Path = SCHEDULER_MODE) -> str:
    """The image of our own kube-scheduler that the manifests name."""
    named = yaml.safe_load(kustomization.read_text())["images"]
    [image] = [each for each in named if each["name"].endswith("/kube-scheduler")]
    return f"{image['name']}:{image['newTag']}"


def ensure_scheduler(program: Path) -> Path:
    """The archive of the image of our own kube-scheduler (mode `scheduler`), in the cache."""
    program = program.resolve()
    state = program.stat()
    key = repr((LAYERS, scheduler_image(), str(program), state.st_size, state.st_mtime_ns))
    archive = binaries.cache() / f"kube-scheduler-{hashlib.sha256(key.encode()).hexdigest()[:12]}.tar"
    with build.locked_cache(binaries.cache()):
        if archive.exists():
            return archive
        root = _empty(archive.with_suffix(".root"))
        target = root / "usr" / "local" / "bin" / "kube-scheduler"
        target.parent.mkdir(parents=True)
        shutil.copy(program, target)
        layer = write_layer(root, archive.with_suffix(".tar.gz"))
        shutil.rmtree(root)
        config = {
            "User": "65532:65532",
            "Env": ["PATH=/usr/local/bin"],
            "Entrypoint": ["kube-scheduler"],
        }
        write_archive(archive, scheduler_image(), [layer], config)
        layer.file.unlink()
    return archive


def ensure_server(folder: Path, *, say: Say) -> Path:
    """The archive of the server's image, written to `folder`. Raises `BuildFailed`."""
    root = ensure_python(say=say)
    python = _layer_beside(root)
    checkout = _checkout_layer(folder, root, say=say)
    config = {
        "User": "65532:65532",
        "Entrypoint": ["sluice"],
        "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"],
    }
    return write_archive(folder / "server.tar", server_image(), [python, checkout], config)


def ensure_python(*, say: Say) -> Path:
    """A root file system with Python and all packages of the lock file; its layer is beside it.

    Raises `BuildFailed`.
    """
    with build.locked_cache(binaries.cache()):
        return _ensure_python(say=say)


def _ensure_python(*, say: Say) -> Path:
    pinned = packages.pinned("image")
    requirements = _uv("export", "--quiet", "--frozen", "--no-dev", "--no-emit-project", "--no-header")
    key = LAYERS + packages.key(pinned) + requirements + repr(FOR_THE_IMAGE) + SLIM.read_text()
    digest = hashlib.sha256(key.encode())
    root = binaries.cache() / f"python-{digest.hexdigest()[:12]}"
    if root.exists():
        return root
    say(f"building the image's Python with the packages of uv.lock; once, then kept in {root}")
    temporary = _empty(root.with_name(f".{root.name}.building"))
    packages.unpack(pinned, temporary, downloads=binaries.cache() / "debian")
    for name in UNUSED:
        shutil.rmtree(temporary / name, ignore_errors=True)
    file = temporary.with_suffix(".requirements")
    file.write_text(requirements)
    _uv_install(temporary / SITE, "--no-deps", "--require-hashes", *FOR_THE_IMAGE, f"--requirements={file}")
    file.unlink()
    (temporary / "tmp").chmod(0o1777)
    say("compiling the image's Python")
    shutil.copy(SLIM, temporary / "slim.py")
    _in_image(temporary, None, "/slim.py", f"/{SITE}")
    (temporary / "slim.py").unlink()
    _in_image(
        temporary, None, "-m", "compileall", "-q", "--invalidation-mode=unchecked-hash", "/usr/lib/python3.11"
    )
    write_layer(temporary, root.with_suffix(".tar.gz"))
    temporary.replace(root)
    return root


def _layer_beside(root: Path) -> Layer:
    """The layer that `write_layer` wrote beside this root file system."""
    file = root.with_suffix(".tar.gz")
    return Layer(file, *json.loads(_digests_of(file).read_text()))


def _checkout_layer(folder: Path, python: Path, *, say: Say) -> Layer:
    """The product's packages, installed as its wheel would be, and the command `sluice`."""
    say("building the server's image from this checkout")
    root = _empty(folder / "server-root")
    site = root / SITE
    _uv_install(site, "--no-deps", "--no-build-isolation", "--no-cache", str(ROOT))
    shutil.rmtree(site / "bin", ignore_errors=True)
    _in_image(
        python,
        site,
        *("-m", "compileall", "-q", "--invalidation-mode=unchecked-hash", f"/{SITE}"),
    )
    command = root / "usr" / "local" / "bin" / "sluice"
    command.parent.mkdir(parents=True)
    command.write_text(ENTRY_POINT)
    command.chmod(0o755)
    layer = write_layer(root, folder / "server.tar.gz")
    shutil.rmtree(root)
    return layer


def write_layer(root: Path, file: Path) -> Layer:
    """Pack everything below `root`, as root's and without times; what root may read or run, all users may.

    So it does not depend on the umask of who builds it, and the image's user is not root.
    """
    content, packed = hashlib.sha256(), hashlib.sha256()
    temporary = file.with_name(f".{file.name}.writing")
    with temporary.open("wb") as output:
        compressed: Any = _Hashing(output, packed)
        with gzip.GzipFile(fileobj=compressed, mode="wb", compresslevel=1, mtime=0) as pack:
            stream: Any = _Hashing(pack, content)
            with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar:
                for each in sorted(root.iterdir()):
                    tar.add(each, each.name, filter=_for_all_users)
    layer = Layer(file, packed.hexdigest(), content.hexdigest())
    _digests_of(file).write_text(json.dumps([layer.digest, layer.content_digest]))
    temporary.replace(file)
    return layer


def write_archive(file: Path, name: str, layers: Sequence[Layer], config: Mapping[str, Any]) -> Path:
    """What `ctr images import` takes: these layers under this name."""
    root_fs = {"type": "layers", "diff_ids": [f"sha256:{layer.content_digest}" for layer in layers]}
    blobs: dict[str, bytes] = {}
    image = {"architecture": packages.ARCHITECTURE, "os": "linux", "config": dict(config), "rootfs": root_fs}
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{MEDIA_TYPE}.manifest.v1+json",
        "config": {"mediaType": f"{MEDIA_TYPE}.config.v1+json", **_add(blobs, image)},
        "layers": [
            {
                "mediaType": f"{MEDIA_TYPE}.layer.v1.tar+gzip",
                "digest": f"sha256:{layer.digest}",
                "size": layer.file.stat().st_size,
            }
            for layer in layers
        ],
    }
    reference = {
        "mediaType": f"{MEDIA_TYPE}.manifest.v1+json",
        **_add(blobs, manifest),
        "annotations": {"io.containerd.image.name": name},
    }
    index = {"schemaVersion": 2, "mediaType": f"{MEDIA_TYPE}.index.v1+json", "manifests": [reference]}
    temporary = file.with_name(f".{file.name}.writing")
    with tarfile.open(temporary, "w") as tar:
        for layer in layers:
            tar.add(layer.file, f"blobs/sha256/{layer.digest}", filter=_without_owner)
        documents = {
            "index.json": json.dumps(index).encode(),
            "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
        }
        for path, content in {**blobs, **documents}.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return temporary.replace(file)


class _Hashing:
    """A file to write to that hashes what passes."""

    def __init__(self, file: Any, digest: Any) -> None:
        self._file, self._digest = file, digest

    def write(self, data: bytes) -> int:
        self._digest.update(data)
        written: int = self._file.write(data)
        return written

    def flush(self) -> None:
        self._file.flush()


def _add(blobs: dict[str, bytes], document: Mapping[str, Any]) -> dict[str, Any]:
    data = json.dumps(document).encode()
    digest = hashlib.sha256(data).hexdigest()
    blobs[f"blobs/sha256/{digest}"] = data
    return {"digest": f"sha256:{digest}", "size": len(data)}


def _digests_of(layer: Path) -> Path:
    return layer.with_name(f"{layer.name}.json")


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def _for_all_users(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    granted = entry.mode & 0o500
    entry.mode |= granted >> 3 | granted >> 6
    return _without_owner(entry)


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _in_image(root: Path, mounted: Path | None, *arguments: str) -> None:
    """Run the image's Python in its root file system, with `mounted` as its packages; needs root."""
    mount = f'mount --bind "$2" "$1/{SITE}" && ' if mounted else ""
    script = f'{mount}root=$1 && shift 2 && exec chroot "$root" {PYTHON} "$@"'
    isolated = ("unshare", "--mount", "--propagation=private", "sh", "-ec", script, "sh")
    _run([*isolated, str(root), str(mounted or ""), *arguments])


def _uv_install(target: Path, *arguments: str) -> None:
    _uv("pip", "install", "--quiet", f"--python={sys.executable}", f"--target={target}", *arguments)


def _uv(*arguments: str) -> str:
    return _run([str(Path(sys.executable).with_name("uv")), *arguments])


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise BuildFailed(f"{' '.join(command)[:200]} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout
