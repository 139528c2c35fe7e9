"""A start imports only what every server needs: with one replica nobody is answered meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from certs.authority import create

#: What a start does not import, with what it is for.
LATER = {
    "kubernetes": "reads the kubeconfigs that we do not read ourselves; never in a pod",
    "requests": "as `kubernetes`",
    "urllib3": "as `kubernetes`",
    "pydantic": "as `kubernetes`",
    "numpy": "scores nodes, once a policy does",
    "multiprocessing": "nothing of ours",
    "sqlite3": "nothing of ours",
    "unittest": "nothing of ours",
    "xml": "nothing of ours",
}
#: All that is done before the worker is forked, in a pod that has its files in the folder.
START = """
import json, sys
from pathlib import Path
from cluster.api import configuration
from server.main import Runtime, create_app
from server.settings import read

configuration.SERVICE_ACCOUNT = Path(sys.argv[1])
settings = read(["--certs-dir", sys.argv[1] + "/certs"])
runtime = Runtime(settings)
runtime.certificates.prepare()
create_app(runtime.store, admission=settings.admission_settings, metrics=runtime.metrics)
print(json.dumps(sorted(sys.modules)))
"""


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The modules that a server in a pod has imported when it begins to serve."""
    folder = tmp_path_factory.mktemp("service-account")
    (folder / "ca.crt").write_bytes(create(name="cluster", now=datetime.now(UTC)).certificate)
    (folder / "token").write_text("token")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    pod = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}
    command = [sys.executable, "-c", START, str(folder)]
    done = subprocess.run(command, env=environment | pod, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("module", LATER)
def test_a_server_in_a_pod_starts_without(module: str, imported: set[str]) -> None:
    assert module not in imported, f"it is for: {LATER[module]}"


def test_it_has_imported_what_it_serves_with(imported: set[str]) -> None:
    """So the test above looks at the process that it speaks of."""
    assert {"flask", "gunicorn", "uvloop", "cryptography", "server.http.worker"} <= imported


def test_what_is_imported_later_can_be_imported() -> None:
    """A module that is not installed would be no saving."""
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    subprocess.run([sys.executable, "-c", code, *LATER], check=True)
