"""All pages: links lead somewhere, lines are short, and the site and the front door keep their form."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from release.site import files_of_the_site
from tests.support.cases import each_case
from tests.support.docs.pages import DOCS
from tests.support.paths import ROOT

README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def prose(page: Path) -> Iterator[str]:
    """The lines outside of code."""
    code = False
    for line in page.read_text().splitlines():
        if line.lstrip().startswith("```"):
            code = not code
        elif not code:
            yield line


@cache
def anchors(page: Path) -> frozenset[str]:
    """Those that GitHub and the site give to headings."""
    headings = [line.lstrip("#").strip() for line in prose(page) if re.match("#+ ", line)]
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "") for heading in headings]
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain)


def broken(page: Path) -> Iterator[str]:
    for link in LINK.findall("\n".join(prose(page))):
        if re.match("[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.is_file() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            yield link


@each_case("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=name)
def test_each_link_leads_to_a_file_and_a_heading_of_it(page: Path) -> None:
    assert list(broken(page)) == []


@each_case("page", PAGES, ids=name)
def test_no_line_has_more_than_120_columns(page: Path) -> None:
    """But for rows of tables, code, what programs print, and what has no place to break."""
    assert [
        line for line in prose(page) if len(line) > 120 and not line.startswith("|") and breakable(line)
    ] == []


def breakable(line: str) -> bool:
    """Whether it has two parts that could stand on two lines: neither code nor a link is broken."""
    whole = re.sub(r"``.*?``|`[^`]*`|\]\([^)]*\)", "x", line.strip())
    return " " in re.sub(r"^([-*]|\d+\.) ", "", whole)


def test_the_front_door_is_read_in_three_minutes() -> None:
    """What it is, whether it is for the reader, and what it does not do: before the first scroll."""
    lines = README.read_text().splitlines()
    assert len(lines) <= 150
    assert [line for line in lines if len(line) > 100] == []
    first_screen = "\n".join(lines[:35])
    assert "A gang goes whole where there is a quota" in " ".join(first_screen.split())
    assert "(docs/limits.md)" in first_screen
    for peer in ("Volcano", "Kueue", "ResourceQuota"):
        assert f"| {peer} |" in first_screen


def test_the_tour_of_the_front_door_has_ten_commands() -> None:
    tour = README.read_text().partition("\n## A tour\n")[2].partition("\n## ")[0]
    commands = re.findall(r"^\$ (?!export )", tour, re.MULTILINE)
    assert len(commands) == 10


@each_case("section", re.findall(r"^## (.+)$", (DOCS / "limits.md").read_text(), re.MULTILINE))
def test_each_limit_says_what_who_how_likely_and_what_to_do(section: str) -> None:
    text = (DOCS / "limits.md").read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    said = re.findall(r"^- \*\*(.+?)\*\*: \S", text, re.MULTILINE)
    assert said == ["What can happen", "Who can cause it", "How likely", "What to do"]


def listed(part: Any) -> Iterator[str]:
    """The pages of the site's table of contents."""
    if isinstance(part, str):
        yield part
    else:
        for each in part.values() if isinstance(part, dict) else part:
            yield from listed(each)


def test_each_page_is_in_the_table_of_contents_of_the_site() -> None:
    """But for decisions, which their own index lists."""
    nav = set(listed(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]))
    assert [page for page in nav if not (ROOT / page).is_file()] == []
    pages = {name(page) for page in PAGES if page.parent.name != "decisions"}
    assert pages - nav == set()


def test_all_that_pages_link_to_is_in_the_site() -> None:
    files = {name(file) for file in files_of_the_site(ROOT)}
    assert {"README.md", "benchmarks/RESULTS.md", "docs/reference/openapi.yaml"} <= files
    assert not [file for file in files if file.startswith(("dist/", ".venv/"))]
