"""A few objects under resource versions, by path, as the API server keeps them: for rules that depend on the
order of reads and conditional writes. What a real API server does with them is tried in tests/e2e/certs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from certs.ca_bundle import ADMISSION, KINDS, NAME
from cluster.api.client import JSON_PATCH, MERGE_PATCH
from cluster.exceptions import Conflict, NotFound, Refused

CONFIGURATIONS = [f"{ADMISSION}/{kind}/{NAME}" for kind in KINDS]


class StoredObjects:
    """Stands for a `cluster.api.client.Client`. `before`: called before each request with verb and path."""

    def __init__(self, *, before: Callable[[str, str], object] = lambda _verb, _path: None) -> None:
        self.before = before
        self.clock_skew = 0.0
        self.objects: dict[str, dict[str, Any]] = {}
        self._version = 0
        for path in CONFIGURATIONS:
            self.put(
                path, {"metadata": {"name": NAME}, "webhooks": [{"clientConfig": {}}, {"clientConfig": {}}]}
            )

    def put(self, path: str, body: dict[str, Any]) -> None:
        self._version += 1
        self.objects[path] = deepcopy(body)
        self.objects[path]["metadata"]["resourceVersion"] = str(self._version)

    def get(self, path: str, **_query: str | int) -> bytes:
        self.before("get", path)
        if path not in self.objects:
            raise NotFound(404, "NotFound", path)
        return json.dumps(self.objects[path]).encode()

    def create(self, path: str, body: Any, **_query: str) -> bytes:
        self.before("create", path)
        target = f"{path}/{body['metadata']['name']}"
        if target in self.objects:
            raise Conflict(409, "AlreadyExists", target)
        self.put(target, body)
        return json.dumps(self.objects[target]).encode()

    def patch(self, path: str, body: Any, *, content_type: str = MERGE_PATCH, **_query: str) -> bytes:
        self.before("patch", path)
        if path not in self.objects:
            raise NotFound(404, "NotFound", path)
        held = deepcopy(self.objects[path])
        if content_type == JSON_PATCH:
            _apply_steps(held, body)
        else:
            wanted = body.get("metadata", {}).get("resourceVersion")
            if wanted not in (None, held["metadata"]["resourceVersion"]):
                raise Conflict(409, "Conflict", path)
            _merge(held, body)
            if (
                held.get("immutable")
                or (held.get("data") or {}).keys() & (held.get("binaryData") or {}).keys()
            ):
                raise Refused(422, "Invalid", path)
        self.put(path, held)
        return json.dumps(self.objects[path]).encode()


def _apply_steps(held: dict[str, Any], steps: list[dict[str, Any]]) -> None:
    """The two operations that are used: test, and add."""
    for step in steps:
        *parents, last = step["path"].strip("/").split("/")
        place: Any = held
        for part in parents:
            place = place[int(part)] if isinstance(place, list) else place[part]
        if step["op"] == "test" and place.get(last) != step["value"]:
            raise Refused(422, "Invalid", f"the test of {step['path']} failed")
        if step["op"] == "add":
            place[last] = step["value"]


def _merge(held: dict[str, Any], patch: dict[str, Any]) -> None:
    for key, value in patch.items():
        if value is None:
            held.pop(key, None)
        elif isinstance(value, dict):
            _merge(held.setdefault(key, {}), value)
        else:
            held[key] = value
