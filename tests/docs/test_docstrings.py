"""Docstrings and comments of the product name only what exists.

A name in backticks is one of these, or the test fails:
- a module (`queues.tree`, or its last parts), a name of a module, a class's member (`Store.members`);
- a name that the code of the same package uses: an argument, a variable, a text such as a field of the API;
- a field of our CRDs, or a path of fields that the code reads or writes (`spec.suspend`);
- a name of another project, from `FOREIGN` or of a module that the file imports.
"""

from __future__ import annotations

import ast
import importlib
import keyword
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from server.settings import PREFIX, Settings
from tests.support.cases import each_case
from tests.support.docs.syntax import nodes_below
from tests.support.paths import PACKAGES, ROOT

#: Names of other projects, with where they are from.
FOREIGN = {
    "json_decode_struct_map_inner": "msgspec's C code",
    "labels.NewRequirement": "k8s.io/apimachinery",
    "metav1.LabelSelector": "k8s.io/apimachinery",
    "LabelSelectorAsSelector": "k8s.io/apimachinery",
    "Quantity": "k8s.io/apimachinery",
    "BeforeDelete": "k8s.io/apiserver",
    "scheduling.SystemCriticalPriority": "k8s.io/kubernetes",
    "ReplaceDaemonSetPodNodeNameNodeAffinity": "k8s.io/kubernetes",
    "MaxRequestBodyBytes": "k8s.io/apiserver",
    "ExtenderArgs": "k8s.io/kube-scheduler",
    "ExtenderFilterResult": "k8s.io/kube-scheduler",
    "ExtenderPreemptionArgs": "k8s.io/kube-scheduler",
    "ExtenderPreemptionResult": "k8s.io/kube-scheduler",
    "DefaultMilliCPURequest": "k8s.io/kubernetes",
    "DefaultMemoryRequest": "k8s.io/kubernetes",
    "NonZeroRequested": "k8s.io/kubernetes",
    "NodeSelectorRequirement": "k8s.io/api",
    "NodeSelectorTerm": "k8s.io/api",
    "PodAffinityTerm": "k8s.io/api",
    "TopologySpreadConstraint": "k8s.io/api",
    "UnmarshalSchedulerConf": "Volcano's scheduler",
    "PrioritizeNodes": "Volcano's scheduler",
    "PodRequests": "k8s.io/component-helpers",
    "VolumeBinding": "a plugin of kube-scheduler",
    "bindings": "a resource of the API server",
    "jobs.batch": "how kubectl names a resource",
    "jobs.v1.batch": "how kubectl names a resource",
    "requests.memory": "a resource of ResourceQuota",
    "maxUnavailable": "a field of PodDisruptionBudget",
    "SSL_CERT_FILE": "an environment variable of OpenSSL",
    "REQUESTS_CA_BUNDLE": "an environment variable of requests",
    "go.mod": "a file of Go",
    "a.b": "an example",
}
#: Where a path of fields of an API object begins.
FIELD_ROOTS = {"spec", "status", "metadata", "drain"}
COMMENT = re.compile(r"(?:^ *|  )#.*$")
#: What has a docstring.
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
QUOTED = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
NAME = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(\(.*\))?")


class Module:
    """What a docstring may name of one source file."""

    def __init__(self, path: Path) -> None:
        self.path = path.relative_to(ROOT)
        source = path.read_text()
        self.dotted = ".".join(self.path.with_suffix("").parts).removesuffix(".__init__")
        #: Classes with their members, those of `self` too, and with the names of their bases.
        self.members: dict[str, set[str]] = {}
        self.bases: dict[str, list[str]] = {}
        self.texts = [(line, text) for line, text in _comments(source)]
        self.words: set[str] = set()
        #: Imported modules by the name that the file uses.
        self.imports: dict[str, str] = {}
        self._read(ast.parse(source))  # not kept: four hundred thousand objects of all files

    def _read(self, tree: ast.Module) -> None:
        docstrings = set[int]()
        for node in nodes_below(tree):
            if isinstance(node, DOCUMENTED):
                docstrings |= self._docstring(node)
                if isinstance(node, ast.ClassDef):
                    self.members[node.name] = set(_members(node))
                    self.bases[node.name] = [base.id for base in node.bases if isinstance(base, ast.Name)]
            elif isinstance(node, ast.Import):
                self.imports |= {alias.asname or alias.name: alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                self.imports |= {
                    alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names
                }
            if _named_in(type(node)) or (isinstance(node, ast.Constant) and id(node) not in docstrings):
                self.words |= _words(node)

    def _docstring(self, node: Any) -> set[int]:
        """Notes its lines; returns the node, whose words are not those of code."""
        first = node.body[0] if node.body else None
        if not isinstance(first, ast.Expr) or not isinstance(first.value, ast.Constant):
            return set()
        if not isinstance(first.value.value, str):
            return set()
        lines = first.value.value.split("\n")
        self.texts += [(first.lineno + number, line) for number, line in enumerate(lines)]
        return {id(first.value)}


def _words(node: ast.AST) -> set[str]:
    words = set()
    for field in _named_in(type(node)):
        value = getattr(node, field)
        if isinstance(value, str):
            words |= set(value.split("."))
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        words |= set(re.findall(r"\w+", node.value)) | set(re.findall(r"[\w.]+", node.value))
    return words


def _named_in(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of nodes of that class that may hold a name."""
    if kind not in _NAMED:
        _NAMED[kind] = tuple({"name", "id", "attr", "arg", "asname", "module"}.intersection(kind._fields))
    return _NAMED[kind]


_NAMED: dict[type[ast.AST], tuple[str, ...]] = {}


def _members(definition: ast.ClassDef) -> Iterator[str]:
    for node in nodes_below(definition):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign | ast.AugAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            yield node.attr


def _comments(source: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(source.split("\n"), start=1):
        if "#" in line and (match := COMMENT.search(line)):
            yield number, match.group()


@cache
def modules() -> list[Module]:
    return [Module(path) for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


class Index:
    """All names of the product."""

    def __init__(self) -> None:
        self.modules = modules()
        self.by_dotted: dict[str, Module] = {}
        self.classes: dict[str, list[Module]] = defaultdict(list)
        self.words: set[str] = set(api_fields())
        for module in self.modules:
            parts = module.dotted.split(".")
            for start in range(len(parts)):
                self.by_dotted.setdefault(".".join(parts[start:]), module)
            for name in module.members:
                self.classes[name].append(module)
            self.words |= module.words
        self.words |= {_camel_case(word) for word in self.words if "_" in word}
        self.words |= {PREFIX + field.upper() for field in Settings.__struct_fields__}
        self.words |= set(keyword.kwlist)

    def knows(self, name: str, module: Module) -> bool:
        if name in FOREIGN or name in self.by_dotted:
            return True
        *path, last = name.split(".")
        return name in self.words or (bool(path) and self._knows_member(path, last, module))

    def _knows_member(self, path: list[str], last: str, module: Module) -> bool:
        owner = self.by_dotted.get(".".join(path))
        if owner is not None and last in owner.words:
            return True
        if path[-1] in self.classes:
            return last in self._members(path[-1])
        if path[0] in module.imports:
            return self._imported(module.imports[path[0]], [*path[1:], last])
        known_root = path[0] in FIELD_ROOTS or path[0] in module.words
        return known_root and {*path, last} <= self.words

    def _members(self, name: str) -> set[str]:
        found: set[str] = set()
        for module in self.classes[name]:
            found |= module.members[name]
            for base in module.bases[name]:
                found |= self._members(base) if base in self.classes else set()
        return found

    def _imported(self, target: str, path: list[str]) -> bool:
        if target in self.by_dotted:
            return path[0] in self.by_dotted[target].words
        if target.split(".", maxsplit=1)[0] in PACKAGES:
            name = target.rpartition(".")[2]
            return name not in self.classes or path[0] in self._members(name)
        value: Any = importlib.import_module(target.split(".", maxsplit=1)[0])
        for part in [*target.split(".")[1:], *path]:
            value = getattr(value, part, None)
        return value is not None


def _camel_case(word: str) -> str:
    """The name of a struct's field as the API writes it."""
    first, *rest = word.split("_")
    return first + "".join(part.title() for part in rest)


def api_fields() -> set[str]:
    found: set[str] = set()

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("properties"), dict):
                found.update(node["properties"])
            found.update(str(value) for value in node.get("enum", ()) if isinstance(value, str))
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    for path in sorted((ROOT / "manifests/crds").glob("*.yaml")):
        walk(yaml.load(path.read_text(), Loader=yaml.CSafeLoader))
    return found


@cache
def index() -> Index:
    return Index()


def unknown_names(module: Module) -> Iterator[str]:
    for line, text in module.texts:
        for match in QUOTED.finditer(text):
            name = NAME.fullmatch(match.group(1))
            if name and not index().knows(name.group(1), module):
                yield f"{module.path}:{line}: {match.group()}"


@each_case("package", PACKAGES)
def test_each_name_in_backticks_exists(package: str) -> None:
    stale = [
        name
        for module in index().modules
        if module.path.parts[0] == package
        for name in unknown_names(module)
    ]
    assert not stale, "\n".join(["these names are not there; name what is, or add them to FOREIGN:", *stale])


@each_case(
    "name",
    [
        "queues.tree",
        "well_known.QUEUE",
        "Store.members",
        "QueueDecision.schedules",
        "spec.drain.keep",
        "batch.volcano.sh",
        "status.terminalState",
    ],
)
def test_what_is_there_is_known(name: str) -> None:
    assert index().knows(name, index().by_dotted["cluster.cache.memberships"])


@each_case(
    "name",
    ["queues.telling", "Store.settle_passes", "spec.drain.speed", "passes.STRANGERS", "no_such_function"],
)
def test_what_is_not_there_is_found(name: str) -> None:
    assert not index().knows(name, index().by_dotted["cluster.cache.store"])
