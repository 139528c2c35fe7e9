"""The plugin ships without the server, for pipx and for krew, and runs."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

from release import plugin
from release.__main__ import uv_runner
from tests.support import yaml_texts
from tests.support.paths import ROOT

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
TIME = 1_700_000_000
PYTHON = "{}.{}".format(*sys.version_info[:2])
UV = str(Path(sys.executable).with_name("uv"))
PIPX = "pipx==1.18.4"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plugin.build_wheel(ROOT, tmp_path_factory.mktemp("dist"), uv=uv_runner(ROOT, time=TIME))


def output(*command: str | Path, **environ: str) -> str:
    env = {**os.environ, **environ}
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("tool", ["uv", "pipx"])
def test_it_installs_as_a_tool_with_two_packages_and_both_executables(
    wheel: Path, tmp_path: Path, tool: str
) -> None:
    """By `uv tool install`, and by the real pipx, which uv fetches from PyPI and which uses uv for speed."""
    install = {
        "uv": (UV, "tool", "install", "--quiet", "--python", sys.executable),
        "pipx": (UV, "tool", "run", "--quiet", "--from", PIPX, "pipx", "install", "--backend", "uv"),
    }
    folders = {
        **{"UV_TOOL_DIR": str(tmp_path / "venvs"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")},
        **{"PIPX_HOME": str(tmp_path), "PIPX_BIN_DIR": str(tmp_path / "bin")},
        "PATH": f"{Path(UV).parent}:{os.environ['PATH']}",
    }
    output(*install[tool], str(wheel), **folders)
    bin = tmp_path / "bin"
    assert sorted(path.name for path in bin.iterdir()) == ["kubectl-queue", "kubectl_complete-queue"]
    assert output(bin / "kubectl-queue", "version", "--client") == f"Client Version: {VERSION}\n"
    assert output(bin / "kubectl_complete-queue", "res").endswith("\n:4\n")
    checked = output(
        bin / "kubectl-queue", "policy", "check", ROOT / "manifests/examples/policies/policies.yaml"
    )
    assert "0 faults" in checked
    listed = output(UV, "pip", "freeze", "--python", tmp_path / "venvs" / "kubectl-queue" / "bin" / "python")
    assert [line.split()[0].split("==")[0] for line in listed.splitlines()] == [
        "kubectl-queue",
        "msgspec",
        "pyyaml",
        "tzdata",
    ]


def test_the_same_commit_gives_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    again = plugin.build_wheel(ROOT, tmp_path, uv=uv_runner(ROOT, time=TIME))
    assert again.read_bytes() == wheel.read_bytes()


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="runs what it builds")
def test_an_archive_for_krew_runs_by_the_link_that_krew_makes(wheel: Path, tmp_path: Path) -> None:
    """With the python3 on PATH, and none of the packages of its own."""
    archive = plugin.build_archive(
        *(ROOT, wheel, tmp_path),
        platform=("linux", "amd64"),
        uv=uv_runner(ROOT, time=TIME),
        time=TIME,
        pythons=[PYTHON],
    )
    store = tmp_path / "store"
    with tarfile.open(archive) as tar:
        tar.extractall(store, filter="data")
    path = tmp_path / "bin"
    path.mkdir()
    (path / "python3").symlink_to(sys.base_prefix + f"/bin/python{PYTHON}")
    for name in ("kubectl-queue", "kubectl_complete-queue"):
        (path / name.replace("-", "_")).symlink_to(store / "kubectl-queue" / name)
    environ = {"PATH": f"{path}:/usr/bin:/bin"}
    assert output(path / "kubectl_queue", "version", "--client", **environ) == f"Client Version: {VERSION}\n"
    assert output(path / "kubectl_complete_queue", "res", **environ).endswith("\n:4\n")
    page = store / "kubectl-queue" / "lib" / "kubectl_queue" / "ui"
    assert (page / "templates" / "page.html").exists()
    assert (page / "static" / "page.js").exists()
    packages = store / "kubectl-queue" / PYTHON
    assert {"flask", "werkzeug", "markupsafe", "msgspec", "tzdata", "yaml"} <= {
        each.name for each in packages.iterdir()
    }


def test_the_manifest_for_krew_names_each_archive_with_its_digest(tmp_path: Path) -> None:
    archives = {}
    for number, each in enumerate(plugin.PLATFORMS):
        archives[each] = tmp_path / f"{'-'.join(each)}.tar.gz"
        archives[each].write_bytes(bytes([number]))
    manifest = yaml_texts.load(plugin.krew_manifest(archives, version="1.2.3", url="https://example.com/r/"))
    assert manifest["metadata"]["name"] == "queue"
    assert manifest["spec"]["version"] == "v1.2.3"
    platforms = manifest["spec"]["platforms"]
    assert [each["uri"] for each in platforms] == [
        f"https://example.com/r/{a.name}" for a in archives.values()
    ]
    assert len({each["sha256"] for each in platforms}) == len(plugin.PLATFORMS)
    assert {each["bin"] for each in platforms} == {"kubectl-queue"}


def test_the_plugin_needs_what_its_own_code_imports_and_nothing_of_the_server() -> None:
    """The packages that pyproject.toml names are those of the code."""
    server = "cryptography flask gunicorn h2 httptools kubernetes numpy prometheus_client uvloop"
    code = (
        "import importlib, pkgutil, sys, kubectl_queue\n"
        "for page in (False, True):\n"
        "    for module in pkgutil.walk_packages(kubectl_queue.__path__, 'kubectl_queue.'):\n"
        "        if module.name.startswith('kubectl_queue.ui') is page:\n"
        "            importlib.import_module(module.name)\n"
        "    imported = {name.split('.')[0] for name in sys.modules}\n"
        f"    print(*sorted(imported & set('{server} msgspec yaml'.split())))"
    )
    assert output(sys.executable, "-c", code).splitlines() == ["msgspec yaml", "flask msgspec yaml"]
    settings = plugin.settings(ROOT)
    assert [each.split("==")[0] for each in settings["dependencies"]] == ["msgspec", "pyyaml", "tzdata"]
    assert {
        extra: [each.split("==")[0] for each in names] for extra, names in settings["extras"].items()
    } == {"ui": ["flask"]}
