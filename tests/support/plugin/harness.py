"""What the tests of the plugin share: queue objects in a line, and the command as a shell runs it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from kubectl_queue.access.client import ObjectList
from kubectl_queue.access.responses import ApiRequest
from kubectl_queue.cli.flags import parse
from kubectl_queue.cli.options import COMMON, DryRun
from kubectl_queue.cli.run import run
from kubectl_queue.commands.verbs import load
from kubectl_queue.edit.operation import apply_patch
from kubectl_queue.errors import ForbiddenError, NotFoundError
from kubectl_queue.objects.fields import Object
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.output.console import Console
from kubectl_queue.session import Session

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
#: kubectl keeps caches in it.
HOME = tempfile.TemporaryDirectory(prefix="kubectl-home-")
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
    *words: str, kubeconfig: Path | str = "/no-such-file", environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the installed command. Nothing of this machine's environment but PATH reaches it."""
    return subprocess.run(
        [PLUGIN, *words],
        env={**_clean(kubeconfig), **(environ or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def started_plugin(
    *words: str, kubeconfig: Path | str, environ: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """The same, for who reads what it says while it runs."""
    return subprocess.Popen(
        [PLUGIN, *words],
        env={**_clean(kubeconfig), **(environ or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def plugin_in_process(*words: str, kubeconfig: Path | str) -> subprocess.CompletedProcess[str]:
    """The same command line without a Python process of its own, which is most of the cost of a command.

    For tests of what a command says of a cluster and does to it. It has no stdin. What kubectl itself prints,
    such as a list by a template, is not in the result.
    """
    out, err = io.StringIO(), io.StringIO()
    code = run(words, out=out, err=err, environ=_clean(kubeconfig))
    return subprocess.CompletedProcess(["kubectl-queue", *words], code, out.getvalue(), err.getvalue())


def _clean(kubeconfig: Path | str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": HOME.name, "KUBECONFIG": str(kubeconfig)}


class StoredQueues:
    """The API of queues on values instead of a server; what is written is kept in `patches` and `deleted`."""

    now = NOW

    def __init__(self, *items: Object) -> None:
        self._items = {item["metadata"]["name"]: item for item in items}
        self.patches: list[tuple[str, Mapping[str, Any]]] = []
        self.deleted: list[str] = []

    def list(self, *, selector: str = "", name: str = "") -> ObjectList:
        return ObjectList(list(self._items.values()), "7")

    def get(self, name: str) -> Object:
        if name not in self._items:
            raise NotFoundError(f'queue "{name}" not found', code=404)
        return self._items[name]

    def patch(self, name: str, patch: Mapping[str, Any], *, dry_run: DryRun) -> Object:
        self.patches.append((name, patch))
        self._items[name] = apply_patch(self._items[name], patch)
        return self._items[name]

    def delete(self, name: str, *, dry_run: DryRun) -> bool:
        self.deleted.append(name)
        return True


class StoredObjects:
    """The API server on values, by path. `forbidden`: paths that may not be read."""

    now = NOW

    def __init__(self, objects: Mapping[str, Object], *, forbidden: Collection[str] = ()) -> None:
        self._objects = objects
        self._forbidden = forbidden

    def send(self, request: ApiRequest, *, kind: str = "") -> Object:
        self._refuse(request.path, kind)
        if request.path not in self._objects:
            raise NotFoundError(f"Error from server (NotFound): {kind} not found", code=404)
        return self._objects[request.path]

    def list(self, path: str, *, query: Mapping[str, str], kind: str = "") -> ObjectList:
        """The items of the list stored at the path; none where there is no such list."""
        self._refuse(path, kind)
        stored = self._objects.get(path, {})
        return ObjectList(list(stored.get("items", ())), "7")

    def pages(
        self, path: str, *, query: Mapping[str, str], kind: str = "", metadata_only: bool = False
    ) -> Iterator[ObjectList]:
        yield self.list(path, query=query, kind=kind)

    def _refuse(self, path: str, kind: str) -> None:
        if path in self._forbidden:
            refused = f'Error from server (Forbidden): {kind} "x" is forbidden: User "u" cannot get resource'
            raise ForbiddenError(refused, code=403)


#: A cluster with Sluice's webhooks.
REGISTERED: Mapping[str, Object] = {
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": {
        "items": [{"metadata": {"name": "sluice"}, "webhooks": [{"name": "queues.sluice.dev"}]}]
    }
}


class CommandResult(NamedTuple):
    code: int
    out: str
    err: str


def run_command(
    api: StoredQueues, verb: str, *words: str, client: StoredObjects | None = None, stdin: str = ""
) -> CommandResult:
    """One command on `api`, without a process of its own. `client`: other objects than queues."""
    command = load(verb)
    flags = parse(words, (*command.flags, *COMMON), command=command.command)
    out, err = io.StringIO(), io.StringIO()
    session = Session(flags, console=Console(out, err, io.StringIO(stdin)), environ={})
    session.__dict__["api"] = api
    session.__dict__["client"] = client if client is not None else StoredObjects(REGISTERED)
    return CommandResult(command.execute(session, flags), out.getvalue(), err.getvalue())
