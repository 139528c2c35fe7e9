"""What the tests of the plugin share: queue objects in a line, and the command as a shell runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kubectl_queue.access.responses import Object
from kubectl_queue.queue_objects import QueueObjects

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
PLUGIN = str(Path(sys.executable).parent / "kubectl-queue")


def item(name: str, *, status: Mapping[str, Any] | None = None, generation: int = 1, **spec: Any) -> Object:
    """A Queue object as the API server has it."""
    metadata = {"name": name, "uid": f"uid-{name}", "generation": generation, "resourceVersion": "7"}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {**metadata, "creationTimestamp": "2030-01-01T11:55:00Z"},
        "spec": {"stopPolicy": "None", **spec},
        "status": dict(status or {}),
    }


def snapshot(*items: Object, now: datetime = NOW) -> QueueObjects:
    return QueueObjects(items, now=now)


def plugin(
    *words: str, kubeconfig: Path | str = "/nonexistent", environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the installed command. Nothing of this machine's environment but PATH reaches it."""
    clean = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "KUBECONFIG": str(kubeconfig)}
    return subprocess.run(
        [PLUGIN, *words],
        env={**clean, **(environ or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
