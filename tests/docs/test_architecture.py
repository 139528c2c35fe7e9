"""docs/contributing/architecture.md names files, packages, imports and threads that are there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.cases import each_case
from tests.support.docs.syntax import nodes_below
from tests.support.paths import PACKAGES, ROOT

MAP = ROOT / "docs" / "contributing" / "architecture.md"
PAGE = MAP.read_text()
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
DECISIONS = sorted((ROOT / "docs" / "contributing" / "decisions").glob("*.md"))
FILES = re.compile(r"`(?!__)([\w/.]+\.(?:py|md|toml|yaml))`")


def section(title: str) -> str:
    """The text below a heading of the second level."""
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def tables(title: str) -> Iterator[list[str]]:
    """The rows of all tables of a section, without their heads."""
    lines = section(title).splitlines()
    for number, line in enumerate(lines):
        is_row = line.startswith("|") and not line.startswith("|---")
        if is_row and not (number + 1 < len(lines) and lines[number + 1].startswith("|---")):
            yield [cell.strip() for cell in line.strip("|").split("|")]


#: A statement, over several lines where the names are in parentheses.
IMPORT = re.compile(r"^ *(?:from ([\w.]+) import (\([^)]*\)|.*)|import (.*))$", re.MULTILINE)


@cache
def imports_of(path: Path) -> frozenset[str]:
    """The files and packages of the project that a file imports, as dotted names."""
    names = set[str]()
    for module, members, modules in IMPORT.findall(path.read_text()):
        imported = re.findall(r"([\w.]+)(?: as \w+)?", re.sub("#.*", "", members or modules))
        names |= {module, *(f"{module}.{name}" for name in imported)} if module else set(imported)
    return frozenset(name for name in names if name.split(".")[0] in PACKAGES)


@cache
def calls_of(path: Path) -> tuple[ast.Call, ...]:
    return tuple(node for node in nodes_below(ast.parse(path.read_text())) if isinstance(node, ast.Call))


def dotted(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".")


@each_case("page", [MAP, CONTRIBUTING, *DECISIONS], ids=lambda page: page.name)
def test_each_file_that_is_named_is_there(page: Path) -> None:
    missing = [file for file in FILES.findall(page.read_text()) if not (ROOT / file).exists()]
    assert missing == []


@each_case("page", [MAP, CONTRIBUTING, *DECISIONS], ids=lambda page: page.name)
def test_each_page_that_is_linked_is_there(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_each_decision_is_in_the_index() -> None:
    index = (MAP.parent / "decisions" / "README.md").read_text()
    assert [
        page.name for page in DECISIONS if page.name != "README.md" and f"]({page.name})" not in index
    ] == []


def test_each_package_has_a_row_with_what_it_imports() -> None:
    rows = {
        row[0].strip("`/"): set(re.findall(r"`(\w+)`", row[2])) for row in tables("Packages") if len(row) == 3
    }
    assert set(rows) == set(PACKAGES)
    for package, allowed in rows.items():
        files = (ROOT / package).rglob("*.py")
        used = {name.split(".")[0] for file in files for name in imports_of(file)} - {package}
        assert used == allowed, package


def test_each_room_has_a_row() -> None:
    named = set(re.findall(r"`([\w/]+)/`", "\n".join("|".join(row) for row in tables("Packages"))))
    rooms = {
        folder.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for folder in (ROOT / package).rglob("*")
        if (folder / "__init__.py").exists()
    }
    assert rooms | set(PACKAGES) == named


def test_each_room_says_what_is_in_it() -> None:
    silent = [
        path.parent.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("__init__.py")
        if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def calls_of_the_server(*functions: str) -> Iterator[ast.Call]:
    """The calls of these functions in the server's packages."""
    for package in ("cluster", "controller", "server", "certs"):
        for path in (ROOT / package).rglob("*.py"):
            if any(function in path.read_text() for function in functions):
                yield from (call for call in calls_of(path) if _last_name(call.func).endswith(functions))


def _last_name(called: ast.expr) -> str:
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ast.unparse(called)


def thread_names() -> set[str]:
    """The fixed part of the name of each thread that the server's packages start."""
    calls = calls_of_the_server("Thread", "ThreadPoolExecutor", "Debouncer")
    return {name for call in calls for name in _fixed_names(call)}


def write_queue_names() -> set[str]:
    """The names that the threads of the write queues begin with."""
    return {
        f"{call.args[0].value!s}-"
        for call in calls_of_the_server("_new_writers")
        if isinstance(call.args[0], ast.Constant)
    }


def _fixed_names(call: ast.Call) -> Iterator[str]:
    for keyword in call.keywords:
        if keyword.arg in ("name", "thread_name_prefix"):
            value = keyword.value
            first = value.values[0] if isinstance(value, ast.JoinedStr) else value
            if isinstance(first, ast.Constant):
                yield str(first.value)


def test_each_thread_has_a_row() -> None:
    rows = {row[0].strip("`"): row[1].strip("`") for row in tables("Threads")}
    assert thread_names() <= set(rows)
    assert {"relisting", "starting", "certificates"} <= thread_names()
    for thread, file in rows.items():
        source = (ROOT / file).read_text()
        assert thread == "main" or "Thread" in source, thread


def test_the_row_of_the_writers_names_the_threads_of_each_write_queue() -> None:
    (does,) = [row[2] for row in tables("Threads") if row[0] == "`writer`"]
    assert write_queue_names() == set(re.findall(r"`([\w-]+-)`", does))


FLOWS = re.split(r"\n\n(?=\*\*)", section("Four flows").strip())


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow[2:20])
def test_the_files_of_a_flow_hang_together_by_their_imports(flow: str) -> None:
    """From the first file that is named each other one is reached over imports among those that are named."""
    files = {file for file in FILES.findall(flow) if file.endswith(".py")}
    reached = {next(file for file in FILES.findall(flow) if file.endswith(".py"))}
    while new := {file for file in files - reached if any(_touch(file, other) for other in reached)}:
        reached |= new
    assert files - reached == set()


def _touch(one: str, other: str) -> bool:
    return dotted(other) in imports_of(ROOT / one) or dotted(one) in imports_of(ROOT / other)


def test_there_are_four_flows() -> None:
    assert len(FLOWS) == 4


@each_case(
    "package",
    [
        *("queues", "queues/admission", "queues/quota", "queues/world", "cluster/cache", "controller/pods"),
        *("controller/evictions", "controller/quota", "webhooks/workloads"),
    ],
)
def test_a_room_says_in_its_docstring_what_each_of_its_modules_is_for(package: str) -> None:
    """The rooms that a newcomer has to choose a module in."""
    told = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text())) or ""
    modules = {path.stem for path in (ROOT / package).glob("*.py")} - {"__init__"}
    assert sorted(name for name in modules if f"`{name}`" not in told) == []
    assert {*re.findall(r"^- `(\w+)`:", told, re.MULTILINE)} - modules == set()


def test_one_place_gathers_what_decides_whether_a_pod_may_start() -> None:
    """Another one would not hear of a new reason. `why`, and a world of lists, go by what a user may read."""
    asking = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if re.search(r"\bstart_decision\(", path.read_text())
    }
    assert asking == {
        *("queues/start_decision.py", "cluster/cache/decisions.py"),
        *("queues/why/case.py", "queues/world/listed.py"),
    }
