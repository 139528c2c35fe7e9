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
COMPILED = ("cffi", "cryptography", "httptools", "msgspec", "numpy", "uvloop", "yaml")
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
    """`kubernetes`, `numpy` and all that is compiled as the image has them."""
    site = tmp_path_factory.mktemp("packages")

    def leave_out(folder: str, names: list[str]) -> set[str]:
        return {*names} if LARGE & {*Path(folder).relative_to(SITE).parts} else {"__pycache__"} & {*names}

    for name in ("kubernetes", *COMPILED):
        shutil.copytree(SITE / name, site / name, ignore=leave_out)
    for path in (*SITE.glob("numpy.libs/*"), *SITE.glob("_cffi_backend*")):
        (site / path.relative_to(SITE)).parent.mkdir(exist_ok=True)
        shutil.copy(path, site / path.relative_to(SITE))
    slim.remove_parts(site)
    slim.strip_libraries(site)
    slim.keep_kubeconfig_reader(site)
    return site


def run(site: Path, code: str) -> str:
    """What the code prints, with these packages and without the unused ones."""
    absent = {
        name
        for name, distributions in metadata.packages_distributions().items()
        if {slim.normalized(each) for each in distributions} <= slim.UNUSED
    }
    absent |= {name.removesuffix(".py") for name in slim.UNUSED_LIBRARY}
    absent |= {"pip", "pkg_resources", "setuptools", "wheel"}
    absent |= {pattern for pattern in slim.UNUSED_PARTS if "/" not in pattern}
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
        "print(len(names), numpy.__file__, sep='\\n')"
    )
    modules, numpy = run(slimmed, code).splitlines()
    assert int(modules) > 200
    assert numpy.startswith(str(slimmed))


def test_compiled_packages_work_without_their_symbols(slimmed: Path) -> None:
    """A key is made and signs, a loop runs, and requests, YAML and JSON are read."""
    code = """
import httptools, msgspec, numpy, uvloop, yaml
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
key = ec.generate_private_key(ec.SECP256R1())
key.public_key().verify(key.sign(b"x", ec.ECDSA(hashes.SHA256())), b"x", ec.ECDSA(hashes.SHA256()))
async def answer():
    return 42
assert uvloop.run(answer()) == 42
parser = httptools.HttpRequestParser(object())
parser.feed_data(b"GET / HTTP/1.1\\r\\n\\r\\n")
assert parser.get_method() == b"GET"
assert yaml.load("[1, 2]", Loader=yaml.CSafeLoader) == msgspec.json.decode(b"[1, 2]")
assert numpy.ones(2).dot(numpy.ones(2)) == 2
print(*{module.__file__ for module in (httptools, msgspec, numpy, uvloop, yaml)}, sep="\\n")
"""
    assert all(file.startswith(str(slimmed)) for file in run(slimmed, code).splitlines())


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no ELF")
def test_a_compiled_module_keeps_what_is_loaded_and_loses_the_rest(slimmed: Path) -> None:
    """PyPI's uvloop comes with what debuggers read: nine tenths of it."""
    [before] = (SITE / "uvloop").glob("loop.*.so")
    after = slimmed / before.relative_to(SITE)
    assert after.stat().st_size < before.stat().st_size / 4
    assert after.stat().st_mode == before.stat().st_mode
    kept, whole = after.read_bytes(), before.read_bytes()
    assert kept[0x40:] == whole[0x40 : len(kept)], "all but the header is as it was"


def test_what_is_no_library_of_elf_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "module.so"
    file.write_bytes(b"\xcf\xfa\xed\xfe" + bytes(100))
    slim.strip_libraries(tmp_path)
    assert file.read_bytes() == b"\xcf\xfa\xed\xfe" + bytes(100)


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


def test_of_the_base_pip_goes_and_python_stays(tmp_path: Path) -> None:
    """The folders as in the usual Python images."""
    library = "lib/python3.11"
    stays = {"bin/python3.11", f"{library}/json/__init__.py", f"{library}/os.py"}
    goes = {
        *("bin/pip3", "bin/python3.11-config", "bin/idle3", "include/python3.11/Python.h"),
        *(f"{library}/ensurepip/pip.whl", f"{library}/turtle.py", f"{library}/tkinter/__init__.py"),
        *(
            f"{library}/site-packages/{name}"
            for name in ("pip/__init__.py", "setuptools/__init__.py", "x.pth")
        ),
    }
    for name in stays | goes:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    folders = {
        "stdlib": library,
        "purelib": f"{library}/site-packages",
        "scripts": "bin",
        "include": "include/python3.11",
    }
    slim.remove_from_base({name: tmp_path / folder for name, folder in folders.items()})
    assert files_below(tmp_path) == stays


def test_the_names_that_go_are_of_todays_standard_library() -> None:
    gone_in_3_13 = {"lib2to3"} if sys.version_info >= (3, 13) else set()
    names = {name.removesuffix(".py") for name in slim.UNUSED_LIBRARY}
    assert names - sys.stdlib_module_names == gone_in_3_13
