"""The pictures of the documentation, drawn from their texts: `make pictures`.

    python -m release.pictures

`docs/pictures/main.go` draws them, by the Graphviz that is pinned in its go.mod. tests/docs/test_pictures.py
notices a picture that is older than its text.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from localcluster import build
from localcluster.exceptions import BuildFailed

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"


def main() -> int:
    try:
        go = build.go(say=print)
        subprocess.run([go, "run", "."], cwd=PICTURES, check=True)
    except (BuildFailed, subprocess.CalledProcessError) as exc:
        print(f"pictures: {exc}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
