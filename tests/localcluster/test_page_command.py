"""The command that `make up` prints at its end."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from localcluster.__main__ import page_command
from localcluster.layout import Layout


def test_the_plugin_is_on_the_path_that_it_sets(tmp_path: Path) -> None:
    """Copied into a shell, `kubectl queue` works there too."""
    layout = Layout.at(tmp_path)
    path, kubeconfig, *command = shlex.split(page_command(layout))
    assert command == ["kubectl", "queue", "ui"]
    assert kubeconfig == f"KUBECONFIG={layout.kubeconfig}"
    folders = path.removeprefix("PATH=").split(":")
    assert folders[0] == str(layout.bin)
    plugin = shutil.which("kubectl-queue", path=":".join(folders))
    assert plugin == str(Path(sys.executable).with_name("kubectl-queue"))
