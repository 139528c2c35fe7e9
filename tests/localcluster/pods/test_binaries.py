"""Debian's programs start with the libraries of their own packages, wherever these are kept."""

from __future__ import annotations

import subprocess
from pathlib import Path

from localcluster.pods.binaries import DEBIAN_PROGRAMS, write_wrappers

PROGRAM = """#!/bin/sh
echo "$LD_LIBRARY_PATH"
printf '%s\\n' "$@"
"""


def test_a_wrapper_passes_libraries_and_arguments_from_a_folder_with_any_name(tmp_path: Path) -> None:
    root = tmp_path / "a 'quoted' $(name)"
    for name, inside in DEBIAN_PROGRAMS.items():
        program = root / inside / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(PROGRAM)
        program.chmod(0o755)
    write_wrappers(root / "bin", root=root)
    for name in DEBIAN_PROGRAMS:
        words = [str(root / "bin" / name), "one word", "$HOME"]
        printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        assert printed.splitlines() == [f"{root}/usr/lib/x86_64-linux-gnu", "one word", "$HOME"]
