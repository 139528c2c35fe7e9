"""`make versions`: the core of the end-to-end tests on each Kubernetes (docs/operating/versions.md).

`VERSIONS="1.30 1.36" make versions` runs some. A version whose programs cannot be built has a row that says
so, and the others are run. A test that is skipped on a version has its reason in that version's row. Exit
code 1 if any test failed, or a version could not be built that is not known as one that cannot be.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from localcluster.versions import RELEASES, UNPUBLISHED, chosen

WORKERS = "4"
HEADINGS = ("| Kubernetes | result | on |", "|---|---|---|")
CANNOT_BE_BUILT = "not built: the public module proxy lacks modules of this release"


class Row(NamedTuple):
    """What came of one version."""

    release: str
    result: str
    is_good: bool

    def text(self, today: str) -> str:
        return f"| {self.release.removeprefix('v')} | {self.result} | {today} |"


def run_version(minor: str, *, env: Mapping[str, str]) -> Row:
    """Build it where it is not cached, and run the core on it."""
    if minor in UNPUBLISHED:
        return Row(RELEASES[minor], CANNOT_BE_BUILT, is_good=True)
    chosen_env = {**env, "VERSION": minor, "CI": "true"}
    release = RELEASES[minor]
    built = subprocess.run([sys.executable, "-m", "localcluster", "build"], env=chosen_env, check=False)
    if built.returncode:
        return Row(release, "not built", is_good=False)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "core", f"--junitxml={report}"]
        command += ["-n", WORKERS, "--dist", "loadfile", "--no-loadscope-reorder"]
        started = time.monotonic()
        done = subprocess.run(command, env=chosen_env, check=False)
        minutes = (time.monotonic() - started) / 60
        return Row(release, f"{counted(report)} in {minutes:.0f} min", is_good=done.returncode == 0)


def counted(report: Path) -> str:
    """How many tests passed, failed and were skipped, and why these, by pytest's report."""
    if not report.exists():
        return "no test ran"
    suite = ElementTree.parse(report).getroot().find("testsuite")  # noqa: S314 - written by our own pytest
    assert suite is not None
    number = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
    failed = number["failures"] + number["errors"]
    parts = [f"{number['tests'] - failed - number['skipped']} passed"]
    parts += [f"{failed} failed"] if failed else []
    reasons = sorted({each.get("message", "") for each in suite.iter("skipped")})
    parts += [f"{number['skipped']} skipped ({'; '.join(reasons)})"] if number["skipped"] else []
    return ", ".join(parts)


def main(arguments: Sequence[str]) -> int:
    """Run the versions that are named, else all; the exit code."""
    minors = [chosen({"VERSION": each}) for each in arguments] or list(RELEASES)
    rows = [run_version(minor, env=os.environ) for minor in minors]
    today = datetime.now(UTC).date().isoformat()
    print("\n".join(("", *HEADINGS, *(row.text(today) for row in rows))))
    return 0 if all(row.is_good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
