"""One name, one thing: no two modules of the product define a public class, or type alias, of one name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support.paths import ROOT

PACKAGES = (
    *("queues", "cluster", "extender", "webhooks", "controller", "certs", "server", "kubectl_queue"),
    *("localcluster", "release"),
)


def defined(tree: ast.Module) -> Iterator[str]:
    """The classes of a module, and what it assigns to a name in CamelCase: type aliases."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (each.id for each in targets if isinstance(each, ast.Name) and is_camel_case(each.id))


def is_camel_case(name: str) -> bool:
    return name[0].isupper() and name != name.upper()


def shared_names(sources: Mapping[str, str]) -> Mapping[str, frozenset[str]]:
    """By name, the modules that define it, where there are several. `sources`: texts by module."""
    modules = defaultdict[str, set[str]](set)
    for module, source in sources.items():
        for name in defined(ast.parse(source)):
            if not name.startswith("_"):
                modules[name].add(module)
    return {name: frozenset(those) for name, those in modules.items() if len(those) > 1}


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def test_names_of_two_modules_are_found() -> None:
    sources = {
        "a": "class Key: ...\nclass _Part: ...\nLIMIT = 1\nAmounts = dict[str, int]\n",
        "b": "Key = tuple[str, str]\nclass _Part: ...\nLIMIT = 2\n",
        "c": "def f():\n    class Amounts: ...\nfrom a import Key\n",
    }
    assert shared_names(sources) == {"Key": {"a", "b"}}


def test_no_two_modules_define_a_class_of_one_name() -> None:
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    assert shared_names({module_of(path): path.read_text() for path in paths}) == {}, (
        "give one of them another name"
    )
