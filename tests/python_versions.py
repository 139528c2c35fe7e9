"""`make pythons`: the tests without a control plane on each Python that is here, as a table.

An interpreter is taken from PATH, or from pyenv. One that is not here has a row that says so. Each gets the
packages of `uv.lock` in an environment of its own, which is kept in the cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from localcluster.build import home
from tests.kubernetes_versions import counted

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
ROOT = Path(__file__).parent.parent


def interpreter(version: str) -> str | None:
    """The path of one that runs; a shim of pyenv may be there for one that is not."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    candidates = [*sorted(map(str, pyenv.glob(f"{version}.*/bin/python"))), shutil.which(f"python{version}")]
    return next((each for each in candidates if each and _runs(each, version)), None)


def _runs(path: str, version: str) -> bool:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == version


def result(version: str) -> tuple[str, bool]:
    """What came of the tests on it, and whether that is good."""
    path = interpreter(version)
    if path is None:
        return "not on this machine", True
    env = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(home() / "python" / version), "CI": "true"}
    uv = str(Path(sys.executable).parent / "uv")
    sync = [uv, "sync", "--quiet", "--frozen", "--python", path]
    if subprocess.run(sync, cwd=ROOT, env=env, check=False).returncode:
        return "its packages cannot be installed", False
    python = str(Path(env["UV_PROJECT_ENVIRONMENT"]) / "bin" / "python")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [python, "-m", "pytest", "-q", "-m", "not cluster and not slow", "-p", "no:schemathesis"]
        command += ["-n", "2", "--dist", "loadfile", f"--junitxml={report}"]
        done = subprocess.run(command, cwd=ROOT, env={**env, "HYPOTHESIS_PROFILE": "fast"}, check=False)
        return counted(report), done.returncode == 0


def main(arguments: Sequence[str]) -> int:
    """Run the versions that are named, else all; the exit code."""
    today = datetime.now(UTC).date().isoformat()
    rows = [(version, *result(version)) for version in arguments or VERSIONS]
    print("\n| Python | result | on |\n|---|---|---|")
    for version, text, _ in rows:
        print(f"| {version} | {text} | {today} |")
    return 0 if all(good for _, _, good in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
