"""The search of the documentation's site, asked as a reader asks it.

The site is built as `make site` builds it, and its own search runs: the theme's worker, on the index that the
build wrote, in the Node.js that Playwright brings (`search.js`). Nothing of it is imitated.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from localcluster.exceptions import BuildFailed
from release.site import build, files_of_the_site
from tests.support.paths import ROOT

SCRIPT = Path(__file__).with_name("search.js")


def built_site(folder: Path) -> Path:
    """The folder of the site, from a copy of the pages in `folder`. Raises BuildFailed."""
    _install_zensical()
    for file in [*files_of_the_site(ROOT), ROOT / "zensical.toml"]:
        target = folder / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    try:
        return build(folder)
    except subprocess.CalledProcessError as exc:
        raise BuildFailed(f"the site: {exc}") from exc


def found(site: Path, queries: Sequence[str]) -> dict[str, list[str]]:
    """For each query the pages of its results, best first, by their paths in the repository."""
    done = subprocess.run(
        [_node(), SCRIPT, site],
        input=json.dumps(queries),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    answers: list[list[str]] = json.loads(done.stdout)
    return {
        query: [_page(location) for location in locations]
        for query, locations in zip(queries, answers, strict=True)
    }


def _page(location: str) -> str:
    path = location.partition("#")[0].strip("/")
    for page in (f"{path}.md", f"{path}/README.md".lstrip("/")):
        if (ROOT / page).is_file():
            return page
    raise AssertionError(f"no page is at {location}")


def _node() -> Path:
    spec = find_spec("playwright")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "driver" / "node"


def _install_zensical() -> None:
    """As `make site` does, where that was not done yet."""
    if find_spec("zensical") is not None:
        return
    uv = Path(sys.executable).with_name("uv")
    done = subprocess.run(
        [uv, "sync", "--quiet", "--frozen", "--inexact", "--group", "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildFailed(f"Zensical: {done.stderr.strip()}")
