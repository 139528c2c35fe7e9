"""An API server on values: lists by selectors, in pages, and single objects, for both clients of it.

`KEPT` are the kinds that it has. What is asked for is in `paths`, in order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from email.message import Message
from typing import Any

from cluster.exceptions import NotFound
from kubectl_queue.access.responses import ApiRequest, ApiResponse
from queues.apimachinery.label_selectors import Operator, Requirement
from queues.workload_kinds import KINDS
from tests.support.http.wire_objects import Wire

#: The path of each kind, by its name, after the namespace that is left out.
KEPT: Mapping[tuple[str, str], tuple[str, str]] = {
    ("v1", "Pod"): ("/api/v1", "pods"),
    ("v1", "Namespace"): ("/api/v1", "namespaces"),
    ("v1", "Node"): ("/api/v1", "nodes"),
    ("v1", "Event"): ("/api/v1", "events"),
    ("scheduling.k8s.io/v1", "PriorityClass"): ("/apis/scheduling.k8s.io/v1", "priorityclasses"),
    ("scheduling.volcano.sh/v1beta1", "Queue"): ("/apis/scheduling.volcano.sh/v1beta1", "queues"),
    ("scheduling.volcano.sh/v1beta1", "PodGroup"): ("/apis/scheduling.volcano.sh/v1beta1", "podgroups"),
    ("policy/v1", "PodDisruptionBudget"): ("/apis/policy/v1", "poddisruptionbudgets"),
    **{(row.api_version, row.kind): (f"/apis/{row.api_version}", row.resource) for row in KINDS.values()},
}
_CLUSTER_SCOPED = frozenset({"namespaces", "nodes", "queues", "priorityclasses"})
_PLACES = {place: kind for kind, place in KEPT.items()}
_PATH = re.compile(
    r"(?P<base>/api/v1|/apis/[^/]+/[^/]+)(/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<resource>[^/]+)(/(?P<name>[^/]+))?"
)
_TERM = re.compile(r"(?P<key>[^ ,!=()]+) (?P<operator>in|notin) \((?P<values>[^)]*)\)|(?P<plain>[^,]+)")


class ListedObjects:
    """The clients' server. `forbidden`: resources that may not be read, in all namespaces or one. `only`: the
    one namespace in which anything namespaced may be read; "": all.
    """

    def __init__(
        self,
        objects: Iterable[Wire],
        *,
        forbidden: Collection[str] = (),
        only: str = "",
        page: int = 500,
        date: str = "",
    ) -> None:
        self._objects: dict[tuple[str, str], list[Wire]] = {}
        for obj in objects:
            self._objects.setdefault((obj["apiVersion"], obj["kind"]), []).append(obj)
        self._forbidden = forbidden
        self._only = only
        self._page = page
        self._date = date
        self.paths: list[str] = []

    # As `kubectl_queue.access.transport.Transport`

    def send(self, request: ApiRequest) -> ApiResponse:
        assert request.method == "GET", request
        code, body = self._answer(request.path, request.query)
        headers = Message()
        if self._date:
            headers["Date"] = self._date
        return ApiResponse(code, headers, json.dumps(body).encode())

    # As `cluster.api.client.Client`

    def request(self, method: str, path: str, *, query: Mapping[str, Any] | None = None, **_: Any) -> bytes:
        assert method == "GET", method
        code, body = self._answer(path, query or {})
        if code == 404:
            raise NotFound(404, "NotFound", path)
        assert code == 200, body
        return json.dumps(body).encode()

    def get(self, path: str) -> bytes:
        return self.request("GET", path)

    def _answer(self, path: str, query: Mapping[str, Any]) -> tuple[int, Wire]:
        self.paths.append(path)
        match = _PATH.fullmatch(path)
        assert match, path
        kind = _PLACES.get((match["base"], match["resource"]))
        if match["resource"] in self._forbidden or self._is_outside(match):
            refused = f'User "u" cannot list resource "{match["resource"]}"'
            return 403, {"kind": "Status", "reason": "Forbidden", "message": refused}
        if kind is None:
            return 404, {"kind": "Status", "reason": "NotFound", "message": "no such kind"}
        stored = self._objects.get(kind, [])
        if match["namespace"]:
            stored = [each for each in stored if each["metadata"].get("namespace") == match["namespace"]]
        if match["name"]:
            found = next((each for each in stored if each["metadata"]["name"] == match["name"]), None)
            missing = {"kind": "Status", "reason": "NotFound", "details": {"name": match["name"]}}
            return (404, missing) if found is None else (200, found)
        chosen = [each for each in stored if self._is_selected(each, query)]
        start = int(query.get("continue") or 0)
        size = min(self._page, int(query.get("limit") or len(chosen) or 1))
        more = {"continue": str(start + size)} if start + size < len(chosen) else {}
        items = [
            {key: value for key, value in each.items() if key not in {"apiVersion", "kind"}}
            for each in chosen[start : start + size]
        ]
        return 200, {"metadata": {"resourceVersion": "9", **more}, "items": items}

    def _is_outside(self, match: re.Match[str]) -> bool:
        is_namespaced = match["resource"] not in _CLUSTER_SCOPED
        return bool(self._only) and is_namespaced and match["namespace"] != self._only

    def _is_selected(self, obj: Wire, query: Mapping[str, Any]) -> bool:
        labels = obj["metadata"].get("labels") or {}
        terms = _terms(str(query.get("labelSelector") or ""))
        return all(term(labels) for term in terms) and all(
            _has_field(obj, field) for field in str(query.get("fieldSelector") or "").split(",") if field
        )


def _terms(selector: str) -> list[Callable[[Mapping[str, str]], bool]]:
    return [_term(match) for match in _TERM.finditer(selector)]


def _term(match: re.Match[str]) -> Callable[[Mapping[str, str]], bool]:
    if match["key"]:
        operator = Operator.IN if match["operator"] == "in" else Operator.NOT_IN
        return Requirement(match["key"], operator, match["values"].split(",")).matches
    plain = match["plain"].strip()
    if plain.startswith("!"):
        return Requirement(plain[1:], Operator.DOES_NOT_EXIST).matches
    if "!=" in plain:
        key, _, value = plain.partition("!=")
        return Requirement(key, Operator.NOT_IN, [value]).matches
    if "=" in plain:
        key, _, value = plain.partition("=")
        return Requirement(key, Operator.IN, [value]).matches
    return Requirement(plain, Operator.EXISTS).matches


def _has_field(obj: Wire, term: str) -> bool:
    key, sign, wanted = re.split(r"(!=|=)", term, maxsplit=1)
    value: Any = obj
    for part in key.split("."):
        value = (value or {}).get(part)
    return ((value or "") == wanted) is (sign == "=")
