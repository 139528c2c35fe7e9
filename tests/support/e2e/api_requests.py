"""Requests to the cluster's components, with all of the reply: status, body, warnings."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import ceil
from ssl import SSLContext
from typing import Any, NamedTuple

from localcluster import apiserver
from localcluster.apiserver import Https
from localcluster.cluster import LocalCluster
from localcluster.ports import LOOPBACK
from tests.support.e2e.wait import PATIENCE

Object = dict[str, Any]

MERGE, STRATEGIC, JSON = "merge", "strategic-merge", "json"
#: Seconds; less than the API server keeps a connection that nobody uses.
IDLE = 60.0
WATCHED = 60.0


class Answer(NamedTuple):
    """A reply of the API server, with what kubectl would print as warnings."""

    status: int
    body: Object
    warnings: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))

    def must(self, *statuses: int) -> Answer:
        assert self.status in (statuses or (200, 201)), f"{self.status}: {self.message}"
        return self

    def must_refuse(self, *words: str) -> None:
        """It was refused by a webhook or a policy, in these words."""
        assert self.status in (400, 403, 409, 422), f"{self.status}: {self.message}"
        assert all(word in self.message for word in words), self.message


class Api:
    """The API server as the administrator; one connection, made anew when it broke. For one thread.

    `user` sends a request in that user's name, with no group but the one that everybody is in.
    """

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        #: Where objects were made by this: the paths of their collections.
        self.made_at: set[str] = set()
        self._connection: http.client.HTTPSConnection | None = None
        self._used_at = 0.0

    def get(self, path: str, *, accept: str = "application/json") -> Answer:
        return self._send("GET", path, None, {"Accept": accept})

    def create(self, path: str, body: Object, *, user: str = "") -> Answer:
        return self._send("POST", path, body, {"Content-Type": "application/json", **_as(user)})

    def patch(self, path: str, body: Object | list[Object], *, kind: str = MERGE, user: str = "") -> Answer:
        return self._send(
            "PATCH", path, body, {"Content-Type": f"application/{kind}-patch+json", **_as(user)}
        )

    def replace(self, path: str, body: Object) -> Answer:
        return self._send("PUT", path, body, {"Content-Type": "application/json"})

    def delete(self, path: str, *, user: str = "", accept: str = "application/json") -> Answer:
        return self._send("DELETE", path, None, {"Accept": accept, **_as(user)})

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(
        self, method: str, path: str, body: Object | list[Object] | None, headers: Mapping[str, str]
    ) -> Answer:
        payload = None if body is None else json.dumps(body).encode()
        if time.monotonic() - self._used_at > IDLE:
            self.close()  # the API server may have closed it already
        if self._connection is None:
            self._connection = _connection(self._cluster)
        try:
            self._connection.request(method, path, body=payload, headers=dict(headers))
            response = self._connection.getresponse()
            text = response.read()
        except BaseException:
            self.close()
            raise
        finally:
            self._used_at = time.monotonic()
        if response.status == 201:
            collection = path.partition("?")[0]
            self.made_at.add(collection if method == "POST" else collection.rpartition("/")[0])
        return Answer(response.status, _decoded(text), _warnings(response.headers.get_all("Warning") or ()))


def watched(cluster: LocalCluster, path: str, *, since: str, selector: str = "") -> Generator[Object]:
    """Each state of the objects at `path` that the API server has stored since, in its order, for a minute.

    The API server ends a watch of which it cannot get rid of what it has to say: on a busy machine a few
    hundred events in a second or two. It says so in its log only where that is verbose. Another watch goes on
    from the last state.
    """
    until = time.monotonic() + WATCHED
    while (left := until - time.monotonic()) > 0:
        query = f"{path}?watch=1&resourceVersion={since}&timeoutSeconds={ceil(left)}&fieldSelector={selector}"
        with _lines(cluster, query) as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                event = json.loads(line)
                assert event["type"] != "ERROR", event
                since = event["object"]["metadata"]["resourceVersion"]
                yield event["object"]


def metric(port: int, context: SSLContext, pattern: str) -> float:
    """The sum of the samples whose name and labels match."""
    with Https(port=port, context=context) as client:
        text = client.request("GET", "/metrics").body.decode()
    return sum(float(found) for found in re.findall(rf"^{pattern} (\S+)$", text, re.MULTILINE))


@contextmanager
def _lines(cluster: LocalCluster, path: str) -> Iterator[Iterator[bytes]]:
    connection = _connection(cluster)
    try:
        connection.request("GET", path)
        with connection.getresponse() as response:
            assert response.status == 200, response.read()
            yield iter(response.readline, b"")
    finally:
        connection.close()


def _connection(cluster: LocalCluster) -> http.client.HTTPSConnection:
    context = apiserver.context(cluster.layout)
    return http.client.HTTPSConnection(LOOPBACK, cluster.ports.apiserver, context=context, timeout=PATIENCE)


def _as(user: str) -> dict[str, str]:
    return {"Impersonate-User": user, "Impersonate-Group": "system:authenticated"} if user else {}


def _decoded(text: bytes) -> Object:
    try:
        body: Object = json.loads(text)
    except ValueError:
        return {"message": text.decode(errors="replace")}
    return body


def _warnings(headers: Iterable[str]) -> tuple[str, ...]:
    """The texts of `299 - "text"` (RFC 7234)."""
    found = (re.fullmatch(r'299 \S+ "(.*)"', header) for header in headers)
    return tuple(re.sub(r"\\(.)", r"\1", match[1]) for match in found if match)
