"""Nothing that msgspec keeps with a type is built by threads that serve: it is there once all is imported."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.paths import ROOT

PACKAGES = "benchmarks certs cluster controller extender kubectl_queue localcluster queues server webhooks"
#: Whose classes build decoders when they are made; those are looked for by name.
BUILDERS = {
    ROOT / "queues" / "apimachinery" / "conversion.py",
    ROOT / "queues" / "apimachinery" / "lenient.py",
}
#: A file that has none of these builds none.
NAMES = ("msgspec", "Decoder", "Converter", "LenientReader")
#: Much longer than it takes; for a machine that is busy with other things.
SECONDS = 300


def test_first_decodes_in_several_threads_at_once_do_not_crash() -> None:
    """Of 60 processes 13 to 15 died of it before decoders were built at import; here are half as many."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.http.first_use"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr


@pytest.mark.parametrize("package", PACKAGES.split())
def test_every_decoder_is_built_at_import(package: str) -> None:
    faults = [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for path in sorted((ROOT / package).rglob("*.py"))
        if path not in BUILDERS and any(name in path.read_text() for name in NAMES)
        for line, what in late(ast.parse(path.read_text()))
    ]
    assert faults == []


@pytest.mark.parametrize(
    "text",
    [
        "msgspec.json.decode(data, type=Pod)",
        "msgspec.yaml.decode(data, type=Pod)",
        "msgspec.convert(data, Pod)",
        "def read(data):\n    return msgspec.json.Decoder(Pod).decode(data)",
        "class A:\n    def read(self):\n        self.d = Decoder(Pod)",
        "read = lambda kind: Converter[Pod](Pod)",
        "async def read():\n    return Converter(Pod)",
        "def read():\n    return LenientReader(Pod)",
        "from msgspec import convert\nconvert(data, Pod)",
        "from msgspec.json import decode as read",
    ],
)
def test_a_decoder_built_in_a_function_is_found(text: str) -> None:
    assert len(list(late(ast.parse(text)))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "pods = msgspec.json.Decoder(Pod)",
        "class A:\n    read = msgspec.json.Decoder(Pod).decode",
        "msgspec.json.decode(data)",
        "def read(data):\n    return hpack.Decoder(data)",
        "from msgspec.json import Decoder",
    ],
)
def test_a_decoder_built_at_import_is_accepted(text: str) -> None:
    assert list(late(ast.parse(text))) == []


def late(tree: ast.AST, *, within: bool = False) -> Iterator[tuple[int, str]]:
    """What builds a decoder, or may, after the import; by line. `within`: a function's body."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Call) and (fault := _fault(node, within=within)):
            yield node.lineno, fault
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("msgspec"):
            hidden = {each.name for each in node.names} & {"decode", "convert"}
            if hidden:
                yield node.lineno, f"{hidden} under a name of its own"
        functional = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from late(node, within=within or functional)


def _fault(call: ast.Call, *, within: bool) -> str:
    name = ast.unparse(call.func)
    if name.startswith("msgspec.") and name.endswith(".decode") and (len(call.args) > 1 or call.keywords):
        return f"{name} with a type"
    if name == "msgspec.convert":
        return f"{name}; use queues.apimachinery.conversion.Converter"
    if within and re.fullmatch(r"(msgspec\.\w+\.)?(Decoder|Converter|LenientReader)(\[.*\])?", name):
        return f"{name} in a function"
    return ""
