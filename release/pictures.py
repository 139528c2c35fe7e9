"""The pictures of the documentation, drawn from their texts: `make pictures`.

    python -m release.pictures

`docs/pictures/main.go` draws them, by the Graphviz that is pinned in its go.mod. tests/docs/test_pictures.py
notices a picture that is older than its text. With CI=true a picture that changes fails the command.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from localcluster import build
from localcluster.exceptions import BuildFailed

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"


def drawn() -> dict[str, bytes]:
    return {picture.name: picture.read_bytes() for picture in PICTURES.glob("*.svg")}


def main() -> int:
    before = drawn()
    try:
        go = build.go(say=print)
        subprocess.run([go, "run", "."], cwd=PICTURES, check=True)
    except (BuildFailed, subprocess.CalledProcessError) as exc:
        print(f"pictures: {exc}", file=sys.stderr)
        return 1
    changed = [name for name, content in drawn().items() if before.get(name) != content]
    print(f"drawn anew: {', '.join(changed) or 'nothing has changed'}")
    return 1 if changed and os.environ.get("CI") else 0


if __name__ == "__main__":
    sys.exit(main())
