"""`python -m release.chart`: writes the chart as a folder and as an archive to `dist/`.

All files have the time SOURCE_DATE_EPOCH, or that of the commit that is checked out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from localcluster.exceptions import BuildFailed
from release.chart.chart import NAME, ROOT, build_chart
from release.chart.kustomize import KustomizeError


def main() -> int:
    target = ROOT / "dist"
    try:
        archive = build_chart(
            ROOT, target, time=int(os.environ.get("SOURCE_DATE_EPOCH") or commit_time(ROOT))
        )
    except (KustomizeError, BuildFailed) as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 1
    print(f"built {archive.relative_to(ROOT)} and {(target / NAME).relative_to(ROOT)}/")
    return 0


def commit_time(root: Path) -> str:
    command = ["git", "-C", str(root), "log", "-1", "--format=%ct"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
