"""h2spec, the conformance tests of HTTP/2 (pinned in localcluster/h2spec/go.mod), passes the worker.

https://github.com/summerwind/h2spec
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from localcluster.external_tools import h2spec
from tests.support.http.served_worker import served
from tests.support.skipping import built_or_skipped

#: So many there are, the strict ones included.
CASES = 146
#: Seconds that h2spec waits for an answer; a machine with much to do takes its time.
PATIENCE = 20


@pytest.fixture(scope="module")
def binary() -> Path:
    """Built when it is not there yet; where it can neither be found nor built nothing is tested."""
    return built_or_skipped("h2spec", lambda: h2spec(say=print))


def test_the_worker_conforms(certificate: tuple[Path, Path], binary: Path) -> None:
    with served(certificate) as server:
        where = ["--host", "localhost", "--port", str(server.port), "--tls", "--insecure", "--path", "/echo"]
        done = subprocess.run(
            [binary, *where, "--strict", "--timeout", str(PATIENCE)],
            capture_output=True,
            text=True,
            check=False,
        )
    _, _, failures = done.stdout.partition("Failures:")
    assert (done.returncode, failures) == (0, "")
    assert f"{CASES} tests, {CASES} passed" in done.stdout
