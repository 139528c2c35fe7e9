"""The documentation as a site, in dist/site: `make site`.

    python -m release.site

Zensical makes it from a copy of the pages (zensical.toml), whose folders are those of the repository. So the
links of the pages are the links of the site, and README.md is its first page.

Invariants
- Every file of the repository that a page links to is in the site, as a page if it is Markdown.
- A link to a page, a heading or a file that is not there ends the build. Other sites are not asked.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"\]\(([^)\s]+)\)")
#: What begins with a scheme is another site's.
ELSEWHERE = re.compile(r"[a-z]+:")


class BrokenLink(Exception):
    """A page links to a file that is not in the repository; says which page and which link."""


def linked_files(page: Path) -> Iterator[Path]:
    """The files of the repository that a page links to. Raises `BrokenLink`."""
    for link in LINK.findall(page.read_text()):
        path = link.partition("#")[0]
        if not path or ELSEWHERE.match(link):
            continue
        file = (page.parent / path).resolve()
        if not file.is_file():
            raise BrokenLink(f"{page}: {link} is not a file")
        yield file


def files_of_the_site(root: Path) -> set[Path]:
    """README.md, all of docs/, and what is reached from their pages over links. Raises `BrokenLink`."""
    docs = (path for path in (root / "docs").rglob("*") if path.suffix in {".md", ".svg", ".yaml", ".css"})
    found, todo = set[Path](), [root / "README.md", *docs]
    while todo:
        file = todo.pop()
        if file not in found:
            found.add(file)
            todo.extend(linked_files(file) if file.suffix == ".md" else ())
    return found


def build(root: Path) -> Path:
    """The folder of the site, made anew. Raises `BrokenLink`, and `CalledProcessError` from Zensical."""
    pages, site = root / "dist" / "pages", root / "dist" / "site"
    for folder in (pages, site):
        shutil.rmtree(folder, ignore_errors=True)
    files = files_of_the_site(root)
    for file in files:
        _copy(file, pages / file.relative_to(root))
    subprocess.run(
        [Path(sys.executable).parent / "zensical", "build", "--strict", "--clean"], cwd=root, check=True
    )
    for file in files:
        if file.suffix != ".md":  # Zensical leaves out those whose name begins with a dot
            _copy(file, site / file.relative_to(root))
    return site


def _copy(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, target)


def main() -> int:
    try:
        site = build(ROOT)
    except (BrokenLink, subprocess.CalledProcessError) as exc:
        print(f"site: {exc}", file=sys.stderr)
        return 1
    folder = site.relative_to(ROOT)
    print(f"the site is in {folder}; to look at it: python3 -m http.server --directory {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
