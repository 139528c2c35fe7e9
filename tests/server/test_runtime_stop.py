"""Everything that a server started is stopped, though a part of it cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.runtime import Runtime, ThreadOwner
from server.settings import Settings

#: Of an API server that refuses every connection.
KUBECONFIG = """
current-context: nowhere
clusters: [{name: nowhere, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: nowhere, context: {cluster: nowhere, user: nobody}}]
users: [{name: nobody, user: {token: none}}]
"""


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    """Not started."""
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    made = Runtime(Settings(kubeconfig=str(tmp_path / "kubeconfig"), certs_dir=str(tmp_path)))
    owners = made._owners
    yield made
    made._owners = owners
    made.stop()


def test_an_owner_whose_stop_fails_leaves_no_other_running(runtime: Runtime) -> None:
    """They are stopped in the reverse order, and the failure is not lost: gunicorn logs it."""
    stopped: list[str] = []

    def owner(name: str) -> ThreadOwner:
        def stop() -> None:
            stopped.append(name)
            if name == "b":
                raise RuntimeError("as ordered")

        return ThreadOwner(lambda: None, stop, list)

    runtime._owners = [owner(name) for name in "abc"]
    with pytest.raises(RuntimeError, match="as ordered"):
        runtime.stop()
    assert stopped == ["c", "b", "a"]
