from __future__ import annotations

import json
from pathlib import Path

from localcluster.audit_log import binds


def line(code: int, *, uri: str = "/api/v1/namespaces/x/pods/p/binding", message: str = "") -> str:
    return json.dumps(
        {
            "stage": "ResponseComplete",
            "requestURI": uri,
            "user": {"username": "system:kube-scheduler"},
            "objectRef": {"resource": "pods", "subresource": "binding", "namespace": "x", "name": "p"},
            "responseStatus": {"code": code, "message": message},
            "requestReceivedTimestamp": "2026-01-02T03:04:05.383556Z",
            "stageTimestamp": "2026-01-02T03:04:05.395260Z",
        }
    )


def test_a_bind_is_read_with_its_time(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(line(201) + "\n")
    (bind,) = binds(tmp_path / "log")
    assert (bind.namespace, bind.pod, bind.user) == ("x", "p", "system:kube-scheduler")
    assert bind.bound
    assert (bind.answered - bind.received).microseconds == 11704


def test_a_refused_bind_has_its_code_and_message(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(line(403, message="queue is Suspended") + "\n")
    (bind,) = binds(tmp_path / "log")
    assert (bind.bound, bind.code, bind.message) == (False, 403, "queue is Suspended")


def test_a_dry_run_binds_nothing(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(line(201, uri="/api/v1/namespaces/x/bindings?dryRun=All") + "\n")
    (bind,) = binds(tmp_path / "log")
    assert not bind.bound


def test_a_line_that_is_still_being_written_is_left_for_later(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(line(201) + "\n" + line(201)[:40])
    assert len(binds(tmp_path / "log")) == 1
