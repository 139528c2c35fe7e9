"""`sluice serve`: reads the settings, checks the cluster, issues the certificate, serves.

`sluice --version`: the version.

Exit codes: 0 after a requested stop, 2 for invalid settings, 1 for all other errors, such as a worker that
ends before it was ready (`server.gunicorn_app`).
"""

from __future__ import annotations

import faulthandler
import gc
import logging
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from certs.authority import CertificateError
from cluster.exceptions import ClusterError
from queues.mode import Mode
from server.app import create_app, refusal_counter
from server.gunicorn_app import BootWatch, ServedApp, gunicorn_settings
from server.logs import GunicornLog, configure
from server.own_scheduler import file_problems
from server.preflight import PreflightFailed
from server.preflight import check as check_cluster
from server.runtime import Runtime
from server.settings import (
    Settings,
    SettingsError,
    read,
)

USAGE = "usage: sluice serve [--help] [--SETTING VALUE ...]\n       sluice --version"
STDERR = 2

log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    args = list(sys.argv[1:] if arguments is None else arguments)
    if args == ["--version"]:
        print(f"sluice {version('sluice')}")
        return 0
    if not args or args[0] != "serve":
        print(USAGE, file=sys.stderr)
        return 0 if args in (["--help"], ["-h"]) else 2
    try:
        settings = read(args[1:])
        configure(settings.log_level)
        serve(settings)
    except SettingsError as exc:
        print(f"sluice: {exc}", file=sys.stderr)
        return 2
    except (ClusterError, CertificateError, PreflightFailed, OSError) as exc:
        print(f"sluice: {exc}", file=sys.stderr)
        return 1
    return 0


def serve(settings: Settings) -> None:
    """Serve until a signal ends it."""
    _check_own_scheduler(settings)
    for text in settings.warnings:
        log.warning(text)
    runtime, boot = Runtime(settings), BootWatch()
    check_cluster(runtime.client, settings)
    runtime.certificates.prepare()
    app = create_app(
        runtime.store,
        admission=settings.admission_settings,
        metrics=runtime.metrics,
        alive=runtime.dead_threads,
        ready=runtime.missing_for_ready,
        scoring=runtime.scoring,
        is_reading_for_scores=runtime.is_reading_for_scores,
        names_queues=settings.queue_metrics,
    )
    certfile, keyfile = settings.certificate_settings.served
    ServedApp(
        app,
        settings=gunicorn_settings(
            bind=settings.bind,
            health_bind=settings.health_bind,
            certfile=certfile,
            keyfile=keyfile,
            hooks={
                "logger_class": GunicornLog,
                **boot.hooks(),
                "post_worker_init": _post_worker_init(runtime, boot),
                "worker_exit": _worker_exit(runtime),
            },
        ),
        count_refusal=refusal_counter(app, runtime.metrics),
        client_certificates=settings.client_certificates,
    ).run()


def _check_own_scheduler(settings: Settings) -> None:
    """Raises `SettingsError` if our own kube-scheduler would not do what mode `scheduler` promises."""
    if settings.mode == Mode.SCHEDULER and settings.scheduler_config:
        path = Path(settings.scheduler_config)
        certificates = bool(settings.client_ca)
        if wrong := file_problems(
            path, name=settings.scheduler_name, others=settings.schedulers, certificates=certificates
        ):
            raise SettingsError(f"scheduler_config: {'; '.join(wrong)}")


def _post_worker_init(runtime: Runtime, boot: BootWatch) -> Any:
    """A hook that starts the threads after the fork, which they would not survive."""

    def post_worker_init(_worker: Any) -> None:
        faulthandler.enable(STDERR, all_threads=False)  # a crash leaves a traceback in the log
        gc.freeze()
        runtime.start(ready=boot.set_ready)
        log.info("serving on %s, probes on %s", runtime.settings.bind, runtime.settings.health_bind)

    return post_worker_init


def _worker_exit(runtime: Runtime) -> Any:
    def worker_exit(_server: Any, _worker: Any) -> None:
        runtime.stop()

    return worker_exit
