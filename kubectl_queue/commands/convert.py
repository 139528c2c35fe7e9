"""convert: Queues from the ClusterQueues, Cohorts and LocalQueues of Kueue, as YAML or JSON.

Promises
- Nothing is changed: what is printed can be looked at, and applied.
- What is lost, or means something else here, is a warning on stderr. What could not be converted is said
  there as well, and the exit code is 1; all else is printed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kubectl_queue.access.client import API_VERSION, KIND
from kubectl_queue.cli.flags import Flag, Flags
from kubectl_queue.cli.options import Output, formats
from kubectl_queue.commands.verbs import Verb
from kubectl_queue.errors import ForbiddenError, KindMissingError, NotFoundError, QueueError, UsageError
from kubectl_queue.kueue.conversion import Conversion, ConvertedQueue, convert
from kubectl_queue.kueue.decoding import decode
from kubectl_queue.kueue.fields import CLUSTER_QUEUE, COHORT, FLAVOR, GROUP, LOCAL_QUEUE, VERSIONS
from kubectl_queue.kueue.manifests import FILE_LIMIT, BadManifest, read_objects
from kubectl_queue.kueue.report import Report
from kubectl_queue.objects.fields import Object
from kubectl_queue.output.formats import dump
from kubectl_queue.policies.config_map import FLAGS, ConfigMapName, place_of
from kubectl_queue.session import Session

_COMMAND = "kubectl queue convert"
_STDIN = "-"
#: What is read of a cluster: the kind, its resource, and whether the conversion needs it.
_KINDS = (
    (CLUSTER_QUEUE, "clusterqueues", True),
    (COHORT, "cohorts", True),
    (LOCAL_QUEUE, "localqueues", True),
    (FLAVOR, "resourceflavors", False),
    ("WorkloadPriorityClass", "workloadpriorityclasses", False),
)


def run_convert(session: Session, flags: Flags) -> int:
    if flags.names:
        raise UsageError(
            f"convert takes no names; for some queues alone use -f, got {len(flags.names)}", see=_COMMAND
        )
    place = place_of(flags, command=_COMMAND)
    files = flags.many("filename")
    objects = [each for file in files for each in _of_file(session, file)] if files else _of_cluster(session)
    report = Report()
    kueue = decode(objects, report=report, namespace=flags.text("namespace") or "default")
    conversion = convert(kueue, report=report)
    for line in report.warnings:
        session.console.warn(line)
    for line in report.faults:
        session.console.note(f"error: {line}")
    if not conversion.queues:
        raise QueueError("there is no ClusterQueue and no Cohort that can be converted")
    session.console.say(_printed(conversion, place, session.output or Output.YAML))
    session.console.note(_summary(conversion, len(kueue.cluster_queues), place))
    return 1 if report.faults else 0


def _of_file(session: Session, path: str) -> list[Any]:
    shown = "<stdin>" if path == _STDIN else path
    try:
        if path == _STDIN:
            content = session.console.read_input(limit=FILE_LIMIT)
        else:
            with Path(path).open(encoding="utf-8-sig") as file:
                content = file.read(FILE_LIMIT)
        return read_objects(content)
    except UnicodeDecodeError as exc:
        raise QueueError(f"{shown}: not UTF-8: {exc.reason} at byte {exc.start}") from exc
    except BadManifest as exc:
        raise QueueError(f"{shown}: {exc}") from exc
    except (OSError, ValueError) as exc:  # ValueError: a NUL in the path
        raise QueueError(f"{shown}: {getattr(exc, 'strerror', None) or exc}") from exc


def _of_cluster(session: Session) -> list[Any]:
    return [each for kind, resource, needed in _KINDS for each in _listed(session, kind, resource, needed)]


def _listed(session: Session, kind: str, resource: str, needed: bool) -> Iterator[Any]:
    """In the newest version that the cluster serves. Raises QueueError where ClusterQueues are not served."""
    full = f"{resource}.{GROUP}"
    for version in VERSIONS:
        api = f"{GROUP}/{version}"
        try:
            items = session.client.list(f"/apis/{api}/{resource}", query={}, kind=full).items
        except (NotFoundError, KindMissingError):
            continue
        except ForbiddenError as exc:
            if needed:
                raise
            session.console.warn(f"what {full} would lose is not known: {str(exc).strip()}")
            return
        yield from ({"apiVersion": api, "kind": kind, **item} for item in items)
        return
    if kind == CLUSTER_QUEUE:
        raise QueueError(f"the cluster serves no {full}; convert manifests: {_COMMAND} -f FILE")


def _printed(conversion: Conversion, place: ConfigMapName, output: Output) -> str:
    documents = [*_config_map(conversion, place), *map(_queue, conversion.queues)]
    if output is Output.JSON:
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}, indent=4)
    origins = ["scheduling policies that queues name"] if conversion.policies else []
    origins += [queue.origin for queue in conversion.queues]
    texts = [dump(document, output=Output.YAML) for document in documents]
    return "\n---\n".join(f"# {origin}\n{text}" for origin, text in zip(origins, texts, strict=True))


def _config_map(conversion: Conversion, place: ConfigMapName) -> Iterator[Object]:
    if conversion.policies:
        yield {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": place.name, "namespace": place.namespace},
            "data": dict(conversion.policies),
        }


def _queue(queue: ConvertedQueue) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": queue.name},
        "spec": _plain(queue.spec),
    }


def _plain(value: Any) -> Any:
    """Mappings as dicts, for what prints them."""
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list) else value


def _summary(conversion: Conversion, cluster_queues: int, place: ConfigMapName) -> str:
    places = "1 ClusterQueue" if cluster_queues == 1 else f"{cluster_queues:,} ClusterQueues"
    made = "1 queue" if len(conversion.queues) == 1 else f"{len(conversion.queues):,} queues"
    text = f"{made}, in place of {places}"
    if conversion.policies:
        text += f"; their policies are keys of {place}, whose namespace has to exist"
    return f"{text}. A resource that no ClusterQueue names has no limit here; Kueue admits no such work."


VERBS = (
    Verb(
        name="convert",
        usage="[-f FILE]",
        long=(
            "Print Queues in place of the ClusterQueues, Cohorts and LocalQueues of Kueue, of the cluster or "
            "of files (- is stdin). Nothing is changed. What has no counterpart here, or means something "
            "else, is said on stderr. Convert all of them at once: what a Cohort has is the sum of what is "
            "in it. The page docs/operating/move-from-kueue.md has the steps before and after."
        ),
        examples=(
            "kubectl queue convert > queues.yaml",
            "kubectl queue convert -f kueue.yaml | kubectl apply --server-side -f -",
            "kubectl get clusterqueues,cohorts,localqueues -A -o yaml | kubectl queue convert -f -",
        ),
        flags=(
            Flag(
                name="filename",
                short="f",
                value="FILE",
                help="A file with manifests, or - for stdin; may be repeated. The cluster's if not given.",
                repeated=True,
                default=(),
            ),
            *FLAGS,
            formats(Output.YAML, Output.JSON),
        ),
        run=run_convert,
    ),
)
