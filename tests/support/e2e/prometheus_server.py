"""A real Prometheus that scrapes the server of a local control plane, and has our rules."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import yaml

from localcluster import processes
from localcluster.cluster import LocalCluster
from localcluster.ports import LOOPBACK
from tests.support.e2e.wait import until

COMPONENT = "prometheus"
#: Between two scrapes, and two looks at the rules.
EVERY = "500ms"
_LISTENING = re.compile(rf'msg="Listening on" .*address={re.escape(LOOPBACK)}:(\d+)')


class PrometheusServer:
    """It is started, and scrapes port `health` as docs/operating/alerts.md says. Use it in a `with`."""

    def __init__(self, binary: Path, cluster: LocalCluster, rules: Path, folder: Path) -> None:
        self._layout = cluster.layout
        self._log = folder / "prometheus.log"
        config = folder / "prometheus.yaml"
        target = {"targets": [f"{LOOPBACK}:{cluster.ports.health}"]}
        config.write_text(
            yaml.safe_dump(
                {
                    "global": {"scrape_interval": EVERY, "evaluation_interval": EVERY},
                    "rule_files": [str(rules)],
                    "scrape_configs": [{"job_name": "sluice", "static_configs": [target]}],
                }
            )
        )
        self._command = [
            str(binary),
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'prometheus'}",
            f"--web.listen-address={LOOPBACK}:0",
        ]

    def __enter__(self) -> PrometheusServer:
        processes.spawn(self._command, folder=self._layout.folder, component=COMPONENT, log=self._log)
        try:
            said = until(lambda: _LISTENING.search(self._log.read_text()), "Prometheus to listen")
            self._port = int(said[1])
            until(lambda: self._get("/-/ready")[0] == 200, "Prometheus to be ready")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        processes.stop(self._layout.folder, components=[COMPONENT])

    def query(self, expr: str) -> list[dict[str, Any]]:
        """The series that it gives now; fails with what Prometheus says where it cannot be answered."""
        found: list[dict[str, Any]] = self._data("/api/v1/query", {"query": expr})["result"]
        return found

    def rules(self) -> list[dict[str, Any]]:
        """Each rule with its `health`, its `lastError` and, of an alert, its `state`."""
        return [rule for group in self._data("/api/v1/rules")["groups"] for rule in group["rules"]]

    def firing(self) -> set[str]:
        alerts = self._data("/api/v1/alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def _data(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        status, body = self._get(path + (f"?{urlencode(query)}" if query else ""))
        answer = json.loads(body)
        assert (status, answer["status"]) == (200, "success"), f"{query}: {answer}"
        data: dict[str, Any] = answer["data"]
        return data

    def _get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(LOOPBACK, self._port, timeout=30)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()
