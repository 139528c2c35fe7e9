"""`release/Containerfile` is built, on a base of Debian's Python, and its server starts as an ordinary user.

Not shown here: the base that it names, and pulling that; there is no registry.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from localcluster.cluster import LocalCluster
from localcluster.components import NAMESPACE, until
from localcluster.exceptions import BuildFailed, StartFailed
from localcluster.pods import binaries, image_builder, images, installation, node, sandbox
from localcluster.pods.image_builder import BASE, IMAGE, Builder
from localcluster.pods.layout import nodes_of
from tests.support.paths import ROOT
from tests.support.skipping import skip_unless_ci

#: As containerd knows it.
BUILT = "docker.io/library/sluice:built"
#: Of all files, unpacked, with the base; of what we add to it.
LARGEST, LARGEST_ADDED = 150_000_000, 95_000_000
#: In the checkout from which the image is built; none of them may be in the image.
SECRETS = (
    ".git/config",
    ".local/pki/ca.key",
    ".local/kubeconfig",
    ".venv/pyvenv.cfg",
    "server/ca.key",
    "certs/.env",
)
SECRET = "the key of a local cluster"
#: A read-only root with an empty /tmp, as in manifests/deployment; `$1` is the root, `$2` the user.
INSIDE = """
mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"
mount -t tmpfs tmpfs "$1/tmp" && mount --rbind /dev "$1/dev" && mount -t proc proc "$1/proc"
root=$1 user=$2 && shift 2 && exec /usr/sbin/chroot --userspec="$user" "$root" "$@"
"""
#: Prints the modules whose bytecode is missing, or is checked against the source.
WITHOUT_BYTECODE = """
import importlib.util, sys
import server.main
for name, module in sorted(sys.modules.items()):
    source = getattr(module, "__file__", None) or ""
    if name != "__main__" and source.endswith(".py"):
        try:
            with open(importlib.util.cache_from_source(source), "rb") as file:
                if file.read(8)[4:] != b"\\x01\\0\\0\\0":
                    print(name, "is checked against its source")
        except FileNotFoundError:
            print(name, "has none")
"""
#: Writes a kubeconfig inside; a program in it prints the credential.
KUBECONFIG = """
import json, pathlib, yaml
api = "client.authentication.k8s.io/v1"
credential = {"apiVersion": api, "kind": "ExecCredential", "status": {"token": "secret"}}
program = {"apiVersion": api, "command": "python", "interactiveMode": "Never"}
program["args"] = ["-c", f"print({json.dumps(credential)!r})"]
content = {
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"exec": program}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "x",
}
pathlib.Path("/tmp/kubeconfig").write_text(yaml.safe_dump(content))
"""


@dataclass(frozen=True)
class Image:
    """A built image: its root file system, and its configuration."""

    root: Path
    config: dict[str, Any]

    def command(self, *arguments: str) -> list[str]:
        isolated = ("unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child")
        return [*isolated, "sh", "-ec", INSIDE, "sh", str(self.root), self.config["User"], *arguments]

    @property
    def environment(self) -> dict[str, str]:
        return dict(each.split("=", 1) for each in self.config["Env"])

    def run(self, *arguments: str, **environment: str) -> str:
        """What a command prints inside, as the image's user."""
        done = subprocess.run(
            self.command(*arguments),
            env=self.environment | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    """It has built the image."""
    folder = tmp_path_factory.mktemp("image")
    try:
        sandbox.check_machine(folder)
        builder = image_builder.prepare(folder / "buildah", say=print)
    except (StartFailed, BuildFailed) as exc:
        skip_unless_ci(f"NO BUILDER, so this is not tested: {exc}")
    image_builder.build_image(builder, checkout_with_secrets(folder / "checkout"), say=print)
    yield builder
    image_builder.remove(builder)


@pytest.fixture(scope="module")
def image(builder: Builder) -> Image:
    config = json.loads(builder.run("inspect", "--type=image", IMAGE))["OCIv1"]["config"]
    return Image(builder.unpack(IMAGE), config)


def checkout_with_secrets(folder: Path) -> Path:
    """This checkout, as it is on the machine of somebody who works with it."""
    skip = shutil.ignore_patterns(".git", ".venv", ".local*", ".*_cache", "__pycache__", "dist", "tests")
    shutil.copytree(ROOT, folder, ignore=skip)
    for name in SECRETS:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SECRET)
    return folder


def regular_files(root: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(root):
        yield from (path for name in names if stat.S_ISREG((path := Path(folder, name)).lstat().st_mode))


def bytes_below(root: Path) -> int:
    return sum(path.stat().st_size for path in regular_files(root))


def test_it_is_small(builder: Builder, image: Image) -> None:
    base, size = bytes_below(builder.unpack(BASE)), bytes_below(image.root)
    print(f"{size / 1e6:.0f} MB, of which the base has {base / 1e6:.0f}")
    assert size < LARGEST
    assert size - base < LARGEST_ADDED


def test_it_runs_as_the_user_of_the_deployment(image: Image) -> None:
    manifest = yaml.safe_load(images.DEPLOYMENT.read_text())
    user = manifest["spec"]["template"]["spec"]["securityContext"]
    assert image.config["User"] == f"{user['runAsUser']}:{user['runAsGroup']}"
    assert image.run("python", "-c", "import os; print(os.getuid(), os.getgid())") == "65532 65532\n"


def test_nothing_of_the_checkout_is_in_it_but_the_product(image: Image) -> None:
    files = {path: path.name for path in regular_files(image.root)}
    assert not [path for path in files if path.stat().st_size == len(SECRET) and path.read_text() == SECRET]
    names = {".git", ".local", "uv.lock", "pyproject.toml", "localcluster", "release"}
    assert not [path for path in files if names & {*path.relative_to(image.root).parts}]
    packages = image.root / "opt" / "sluice"
    assert [path.name for path in packages.rglob("gunicorn_app.py")] == ["gunicorn_app.py"]


def test_the_authorities_of_the_base_are_in_it_where_python_looks(builder: Builder, image: Image) -> None:
    """Receivers of notices on the internet are verified by these. Package `openssl` makes the last folder."""
    base = builder.unpack(BASE)
    for folder in ("etc/ssl", "usr/share/ca-certificates", "usr/lib/ssl"):
        wanted = {path.relative_to(base) for path in regular_files(base / folder)}
        assert wanted <= {path.relative_to(image.root) for path in regular_files(image.root / folder)}
    assert [*(image.root / "usr/share/ca-certificates").rglob("*.crt")]
    paths = "import ssl; print(*ssl.get_default_verify_paths()[3::2])"
    assert image.run("python", "-c", paths) == "/usr/lib/ssl/cert.pem /usr/lib/ssl/certs\n"


def test_all_that_the_server_imports_has_bytecode(image: Image) -> None:
    """The root is read-only in a pod: what has none is compiled again at each start."""
    assert image.run("python", "-c", WITHOUT_BYTECODE) == ""


def test_a_kubeconfig_with_a_credentials_program_is_read_in_it(image: Image) -> None:
    """By what is left of the package `kubernetes`."""
    code = f"""{KUBECONFIG}
from cluster.api.configuration import load_configuration
print(load_configuration("/tmp/kubeconfig").get_api_key_with_prefix("BearerToken", "authorization"))
"""
    assert image.run("python", "-c", code) == "Bearer secret\n"


def test_its_server_answers_once_it_has_started(image: Image, tmp_path: Path) -> None:
    """By its entry point, with a read-only root. There is no API server: it is alive, and not ready."""
    port, log = free_port(), tmp_path / "log"
    addresses = (f"--bind=127.0.0.1:{free_port()}", f"--health-bind=127.0.0.1:{port}")
    settings = (*addresses, "--certs-dir=/tmp/certs", "--kubeconfig=/tmp/kubeconfig")
    entry = [*image.config["Entrypoint"], "serve", *settings]
    code = f"{KUBECONFIG}\nimport os; os.execvp({entry[0]!r}, {entry!r})"
    with log.open("w") as output:
        start = image.command("python", "-c", code)
        process = subprocess.Popen(
            start, env=image.environment, stdout=output, stderr=output, start_new_session=True
        )
        try:
            until(
                lambda: process.poll() is not None or status(port, "/healthz") == 200,
                what="an answer",
                seconds=180,
            )
            assert process.poll() is None, log.read_text()
            assert status(port, "/readyz") == 503
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # `--kill-child` does not survive the change of the user
            process.wait()
            until(lambda: status(port, "/healthz") is None, what="the end of what it has started")


def test_it_runs_in_the_deployment_of_the_manifests(
    builder: Builder, pods_cluster: LocalCluster, tmp_path: Path
) -> None:
    """In place of the image that `make pods` packs, with all that restricts the pod; then that one again."""
    archive = tmp_path / "image.tar"
    builder.run("push", builder.policy, IMAGE, f"oci-archive:{archive}:{BUILT}")
    for each in nodes_of(pods_cluster.layout, 2):
        node.import_image(each, binaries.ensure(say=print), archive)
    deployment = ("deployment/sluice", f"--namespace={NAMESPACE}")
    pods_cluster.kubectl("set", "image", *deployment, f"sluice={BUILT}")
    try:
        installation.wait_for_rollout(pods_cluster.layout)
        statuses = [pod["status"]["containerStatuses"][0] for pod in pods_of(pods_cluster)]
        assert [each["restartCount"] for each in statuses if each["image"] == BUILT] == [0]
    finally:
        pods_cluster.kubectl("rollout", "undo", *deployment)
        installation.wait_for_rollout(pods_cluster.layout)
        until(lambda: len(pods_of(pods_cluster)) == 1, what="the other pods to end", seconds=120)


def pods_of(cluster: LocalCluster) -> list[dict[str, Any]]:
    """All pods of the server, those that end among them."""
    answer = cluster.kubectl("get", "pods", f"--namespace={NAMESPACE}", "--output=json")
    pods: list[dict[str, Any]] = json.loads(answer)["items"]
    return pods


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def status(port: int, path: str) -> int | None:
    """The status; None if nobody listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return None
    finally:
        connection.close()
