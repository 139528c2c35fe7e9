"""What the image leaves out of the packages is never imported: all of the product works with what is left."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import kubernetes
import numpy as np
import pytest
import yaml

from release import slim
from tests.support.paths import ROOT

SITE = Path(np.__file__).parent.parent
#: Copied without their content, which is most of the package: that they go does not depend on it.
LARGE = {"aio", "api", "models", "__pycache__"}
CREDENTIAL = {
    "apiVersion": "client.authentication.k8s.io/v1",
    "kind": "ExecCredential",
    "status": {"token": "secret"},
}
#: numpy's wheels for Python 3.12 and later have none.
ONLY_OLD_PYTHON = {"numpy/distutils"} if sys.version_info >= (3, 12) else set()
#: Imports packages from a folder first, and the named ones from nowhere.
PREPARE = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in {absent!r}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Absent())
sys.path.insert(0, {site!r})
sys.path.insert(0, {root!r})
"""


def distribution(site: Path, name: str, *files: str) -> None:
    """Installed as pip and uv do it: a list of its files beside its metadata."""
    folder = f"{name.replace('-', '_')}-1.0.dist-info"
    record = [f"{folder}/METADATA", f"{folder}/RECORD", *files]
    for file in record:
        path = site / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (site / folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (site / folder / "RECORD").write_text("".join(f"{file},,\n" for file in record))


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_an_unused_distribution_goes_with_its_metadata_and_others_stay(tmp_path: Path) -> None:
    distribution(tmp_path, "aiohttp-retry", "aiohttp_retry/__init__.py", "aiohttp_retry/more/types.py")
    distribution(tmp_path, "flask", "flask/__init__.py")
    slim.remove_unused(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"flask", "flask-1.0.dist-info"}


def test_a_script_outside_the_packages_is_not_touched(tmp_path: Path) -> None:
    """A list of files names scripts by `../../bin`, which is another folder for each way to install."""
    site = tmp_path / "lib" / "site"
    distribution(site, "websocket-client", "websocket/__init__.py", "../../bin/wsdump")
    slim.remove_unused(site)
    assert files_below(tmp_path) == {"bin/wsdump"}


@pytest.fixture(scope="module")
def slimmed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`kubernetes` and `numpy` as the image has them."""
    site = tmp_path_factory.mktemp("packages")

    def leave_out(folder: str, names: list[str]) -> set[str]:
        return {*names} if LARGE & {*Path(folder).relative_to(SITE).parts} else {"__pycache__"} & {*names}

    for name in ("kubernetes", "numpy"):
        shutil.copytree(SITE / name, site / name, ignore=leave_out)
    if (SITE / "numpy.libs").exists():
        (site / "numpy.libs").symlink_to(SITE / "numpy.libs")
    slim.remove_parts(site)
    slim.keep_kubeconfig_reader(site)
    return site


def run(site: Path, code: str) -> str:
    """What the code prints, with these packages and without the unused ones."""
    absent = {
        name
        for name, distributions in metadata.packages_distributions().items()
        if {slim.normalized(each) for each in distributions} <= slim.UNUSED
    }
    prepared = PREPARE.format(absent=absent, site=str(site), root=str(ROOT)) + code
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", prepared], capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_of_the_product_can_be_imported(slimmed: Path) -> None:
    code = (
        "import importlib, numpy\nfrom release import slim\n"
        "names = [importlib.import_module(name).__name__ for name in slim.product_modules()]\n"
        "print(len(names), numpy.__file__)"
    )
    modules, numpy = run(slimmed, code).split()
    assert int(modules) > 200
    assert numpy.startswith(str(slimmed))


def test_numpy_has_all_that_the_product_uses_of_it(slimmed: Path) -> None:
    sources = [path.read_text() for package in slim.PRODUCT for path in (ROOT / package).rglob("*.py")]
    used = {name for source in sources for name in re.findall(r"\bnp\.([a-z_0-9.]*[a-z_0-9])", source)}
    assert len(used) > 20
    run(slimmed, f"import numpy, operator\nfor name in {sorted(used)!r}: operator.attrgetter(name)(numpy)")


@pytest.mark.parametrize(
    ("user", "printed"),
    [
        (
            {
                "exec": {
                    "apiVersion": CREDENTIAL["apiVersion"],
                    "command": sys.executable,
                    "args": ["-c", f"print({json.dumps(CREDENTIAL)!r})"],
                    "interactiveMode": "Never",
                }
            },
            "Bearer secret",
        ),
        ({"username": "u", "password": "p"}, "Basic dTpw"),
    ],
    ids=["a credentials program", "a password"],
)
def test_kubeconfigs_that_need_the_kubernetes_package_are_read(
    tmp_path: Path, slimmed: Path, user: dict[str, object], printed: str
) -> None:
    """`cluster.api.configuration` reads no such file itself."""
    content = {
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(content))
    output = run(
        slimmed,
        "from cluster.api.configuration import load_configuration\n"
        f"settings = load_configuration({str(file)!r})\n"
        "import kubernetes\n"
        "print(settings.get_api_key_with_prefix('BearerToken', alias='authorization'))\n"
        "print(kubernetes.__file__)",
    )
    assert printed in output.splitlines()
    assert str(slimmed) in output


def test_the_parts_that_go_are_there_today(slimmed: Path) -> None:
    """A pattern that fits nothing any more would be a promise that nobody checks."""
    for pattern in {*slim.UNUSED_PARTS} - ONLY_OLD_PYTHON:
        assert [*SITE.glob(pattern)], pattern
        assert not [*slimmed.glob(pattern)], pattern
    installed = {slim.normalized(each.metadata["Name"]) for each in metadata.distributions()}
    assert installed >= slim.UNUSED
    assert files_below(slimmed / "kubernetes" / "client") == {"__init__.py", "configuration.py"}
    assert (Path(kubernetes.__file__).parent / "aio").exists()
