"""One version: each place that names it is compared with `pyproject.toml`; the form of the changelog."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from release.__main__ import ReleaseError, check_versions
from release.versions import (
    CHANGELOG,
    DEFINITIONS,
    DEPLOYMENT,
    STEPS,
    changelog_versions,
    disagreements,
    unreleased_entries,
    version_files,
)
from tests.support.cases import each_case
from tests.support.paths import ROOT

VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
#: The least that agrees.
FILES = {
    "uv.lock": """\
[[package]]
name = "flask"
version = "3.0.0"
[[package]]
name = "sluice"
version = "1.2.3"
""",
    CHANGELOG: "# Changelog\n\n## Unreleased\n\n### Added\n\n## 1.2.3 - 2030-01-01\n- A.\n\n## 1.1.0\n- B.\n",
    STEPS: "# Steps\n\n## From 1.1 to 1.2\n\n## From 1.0 to 1.1\n",
    DEPLOYMENT: "          image: sluice:1.2.3\n",
    DEFINITIONS: "labels:\n  - pairs: {app.kubernetes.io/version: 1.2.3}\n",
    "README.md": "Kueue 0.17.0. `helm install dist/sluice-1.2.3.tgz`\n",
}


def test_places_that_agree_are_released() -> None:
    assert disagreements("1.2.3", FILES) == []


@each_case(
    ("place", "was", "becomes", "line"),
    [
        ("uv.lock", '"1.2.3"', '"1.2.4"', "uv.lock says 1.2.4"),
        (CHANGELOG, "1.2.3 - 2030-01-01", "1.3.0", "CHANGELOG.md says 1.3.0"),
        (CHANGELOG, "## 1.2.3 - 2030-01-01\n- A.\n\n", "", "CHANGELOG.md says 1.1.0"),
        (
            CHANGELOG,
            "### Added\n",
            "### Added\n- C.\n- D.\n",
            "entries under Unreleased (2); move them to 1.2.3",
        ),
        (STEPS, "## From 1.1 to 1.2\n\n", "", f"{STEPS} has steps to 1.1"),
        (STEPS, "## From 1.1 to 1.2\n\n## From 1.0 to 1.1\n", "", f"{STEPS} has steps to no version"),
        (DEPLOYMENT, "1.2.3", "1.2.2", f"{DEPLOYMENT} says 1.2.2"),
        (DEPLOYMENT, "image: sluice:1.2.3", "image: sluice", f"{DEPLOYMENT} says no version"),
        (DEFINITIONS, "1.2.3", "1.2.2", f"{DEFINITIONS} says 1.2.2"),
        (
            DEFINITIONS,
            "app.kubernetes.io/version",
            "app.kubernetes.io/name",
            f"{DEFINITIONS} says no version",
        ),
        ("README.md", "sluice-1.2.3.tgz", "sluice-1.2.2.tgz", "README.md says 1.2.2"),
        ("README.md", "Kueue", "`$IMAGE:1.2.2`", "README.md says 1.2.2"),
        ("README.md", "Kueue", "`kubectl_queue-1.2.2-py3-none-any.whl`", "README.md says 1.2.2"),
        ("README.md", "Kueue", "`?ref=v1.2.2`", "README.md says 1.2.2"),
    ],
)
def test_a_place_that_says_something_else_is_named(place: str, was: str, becomes: str, line: str) -> None:
    assert was in FILES[place]
    [told] = disagreements("1.2.3", {**FILES, place: FILES[place].replace(was, becomes)})
    assert told.endswith(line)


def test_a_release_is_refused_with_a_line_for_each_place(tmp_path: Path) -> None:
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    check_versions(tmp_path, "1.2.3")
    with pytest.raises(ReleaseError) as refused:
        check_versions(tmp_path, "1.3.0")
    first, *lines = str(refused.value).splitlines()
    assert first == "pyproject.toml says version 1.3.0, but"
    assert len(lines) == len(FILES)


def test_the_checkout_says_one_version_everywhere() -> None:
    """Entries may be under Unreleased until a release is made."""
    lines = disagreements(VERSION, version_files(ROOT))
    assert [line for line in lines if "under Unreleased" not in line] == []


def sections() -> dict[str, str]:
    """The released sections of our changelog, by their headings."""
    _, *parts = re.split(r"^## (?=\d)", (ROOT / CHANGELOG).read_text(), flags=re.MULTILINE)
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


def test_the_changelog_has_its_versions_in_order_below_unreleased() -> None:
    text = (ROOT / CHANGELOG).read_text()
    assert text.index("\n## Unreleased\n") < text.index("\n## 0.3.0")
    numbers = [tuple(map(int, version.split("."))) for version in changelog_versions(text)]
    assert numbers == sorted(set(numbers), reverse=True)
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d{2}-\d{2}", heading) for heading in sections())


@each_case("heading", list(sections()))
def test_a_released_section_has_one_line_for_each_entry(heading: str) -> None:
    """In the groups of Keep a Changelog, in their order; a line may also be the topic of the next ones."""
    groups = re.findall(r"^### (.+)$", sections()[heading], re.MULTILINE)
    order = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
    assert groups == [group for group in order if group in groups]
    lines = [line for line in sections()[heading].splitlines() if line and not line.startswith("### ")]
    assert [line for line in lines if not re.fullmatch(r"- .+\.|[A-Z][\w, ]+:", line)] == []
    assert [line for line in lines if len(re.sub(r"\]\([^)]*\)", "]", line)) > 180] == []


def test_entries_that_wait_for_a_version_are_counted_by_their_first_line() -> None:
    text = "# Changelog\n\n## Unreleased\n\n### Fixed\n- One\n  on two lines.\n- Two.\n\n## 1.0.0\n- Three.\n"
    assert unreleased_entries(text) == ["- One", "- Two."]


def test_a_page_names_only_versions_that_the_changelog_has() -> None:
    """`Since 0.3.` names a version by its first two numbers."""
    known = {version.rpartition(".")[0] for version in changelog_versions((ROOT / CHANGELOG).read_text())}
    named = {
        (path, version)
        for path, text in version_files(ROOT).items()
        if path.endswith(".md")
        for version in re.findall(r"\bSince (\d+\.\d+)\b", text) + re.findall(r"## From (\d+\.\d+) to", text)
    }
    assert {version for _, version in named} == {"0.1", "0.2", "0.3"}
    assert [(path, version) for path, version in named if version not in known] == []
