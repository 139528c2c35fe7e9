"""The authority in a Secret, one for all replicas; and its bundle in a ConfigMap, for schedulers.

| of the Secret                         | what                                |
|---------------------------------------|-------------------------------------|
| `tls.crt`, `tls.key`                  | the current authority               |
| `next.crt`, `next.key`                | the next one, while it is published |
| `former.crt`                          | certificates that are still trusted |
| annotation `sluice.dev/ca-published`, | dates of the replacement            |
| `-switched`                           |                                     |
| annotation `sluice.dev/ca-rotation`   | asks for a step                     |

The ConfigMap of the same name holds nothing secret: `ca.crt` is the bundle, `status` one line for people.

Invariants
- There is one authority: the first replica creates it. If several try at the same time, the API server
  accepts one `create`, and the others use that one.
- A Secret that cannot be read is never overwritten: `AuthorityUnreadable` says what is wrong with it.
- Both are written on condition of the version that was read.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from certs.authority import Authority, AuthorityUnreadable, KeyPair, checked, split
from certs.rotation import REQUEST_ANNOTATION, AuthorityState
from cluster.api.client import Client, decode_response
from cluster.exceptions import Conflict, NotFound

PUBLISHED_ANNOTATION = "sluice.dev/ca-published"
SWITCHED_ANNOTATION = "sluice.dev/ca-switched"
BUNDLE_KEY, STATUS_KEY = "ca.crt", "status"


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Object(msgspec.Struct, frozen=True, rename="camel"):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None


_object = msgspec.json.Decoder(_Object)


@dataclass(frozen=True)
class StoredState:
    """The content of the Secret, and the version that it was read with."""

    state: AuthorityState
    version: str


@dataclass(frozen=True)
class PublishedBundle:
    """The content of the ConfigMap, and the version that it was read with; empty if there is none. `binary`:
    its keys in `binaryData`, which nobody reads there.
    """

    version: str
    data: Mapping[str, str]
    binary: Collection[str] = ()

    def has(self, bundle: bytes) -> bool:
        return self.data.get(BUNDLE_KEY, "").encode() == bundle


class AuthoritySecret:
    """The Secret and the ConfigMap called `name`. Every call raises `cluster.exceptions.ClusterError`."""

    def __init__(self, client: Client, *, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._secrets = f"/api/v1/namespaces/{namespace}/secrets"
        self._config_maps = f"/api/v1/namespaces/{namespace}/configmaps"

    @property
    def title(self) -> str:
        return f"Secret {self._namespace}/{self._name}"

    def read(self) -> StoredState | None:
        """None if there is none. Raises `AuthorityUnreadable`."""
        try:
            answer = self._client.get(f"{self._secrets}/{self._name}")
        except NotFound:
            return None
        return self._stored(answer)

    def create(self, state: AuthorityState) -> StoredState:
        """Create it; if another replica was sooner, what that one wrote. Raises `AuthorityUnreadable`."""
        data = {key: value for key, value in _data(state).items() if value is not None}
        annotations = {key: value for key, value in _annotations(state).items() if value is not None}
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {**self._metadata(), "annotations": annotations},
            "type": "kubernetes.io/tls",
            "data": data,
        }
        try:
            return self._stored(self._client.create(self._secrets, body))
        except Conflict:
            return self._stored(self._client.get(f"{self._secrets}/{self._name}"))

    def write(self, stored: StoredState, state: AuthorityState) -> StoredState:
        """Write another state. Raises `Conflict` if the Secret has changed since it was read."""
        body = {
            "metadata": {"resourceVersion": stored.version, "annotations": _annotations(state)},
            "data": _data(state),
        }
        return self._stored(self._client.patch(f"{self._secrets}/{self._name}", body))

    def read_published(self) -> PublishedBundle:
        """What the ConfigMap says."""
        try:
            decoded = decode_response(self._client.get(f"{self._config_maps}/{self._name}"), _object)
        except NotFound:
            return PublishedBundle("", {})
        return PublishedBundle(
            decoded.metadata.resource_version, decoded.data or {}, binary=tuple(decoded.binary_data or ())
        )

    def publish(self, published: PublishedBundle, bundle: bytes, *, status: str) -> None:
        """Write the ConfigMap unless it is so. Raises `Conflict` if it has changed since it was read."""
        wanted = {BUNDLE_KEY: bundle.decode("ascii"), STATUS_KEY: status}
        if not published.version:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": self._metadata(), "data": wanted}
            self._client.create(self._config_maps, body)
        elif any(published.data.get(key) != value for key, value in wanted.items()):
            body = {"metadata": {"resourceVersion": published.version}, "data": wanted}
            if ours := wanted.keys() & published.binary:  # a key may be in one of the two
                body["binaryData"] = dict.fromkeys(ours)
            self._client.patch(f"{self._config_maps}/{self._name}", body)

    def _metadata(self) -> dict[str, Any]:
        return {
            "name": self._name,
            "namespace": self._namespace,
            "labels": {"app.kubernetes.io/part-of": "sluice"},
        }

    def _stored(self, answer: bytes) -> StoredState:
        decoded = decode_response(answer, _object)
        annotations = decoded.metadata.annotations or {}
        state = AuthorityState(
            self._authority(decoded.data or {}, "tls"),
            next=self._authority(decoded.data or {}, "next") if _has_next(decoded.data or {}) else None,
            former=self._certificates(decoded.data or {}, "former.crt"),
            published=self._date(annotations, PUBLISHED_ANNOTATION),
            switched=self._date(annotations, SWITCHED_ANNOTATION),
            request=annotations.get(REQUEST_ANNOTATION, ""),
        )
        return StoredState(state, decoded.metadata.resource_version)

    def _authority(self, data: dict[str, str], stem: str) -> Authority:
        pair = KeyPair(self._bytes(data, f"{stem}.crt"), self._bytes(data, f"{stem}.key"))
        return checked(pair, where=f"{stem}.crt of {self.title}", way_out=self._way_out(stem))

    def _certificates(self, data: dict[str, str], key: str) -> tuple[bytes, ...]:
        if key not in data:
            return ()
        try:
            return split(self._bytes(data, key))
        except ValueError as exc:
            raise self._unreadable(key, exc) from exc

    def _bytes(self, data: dict[str, str], key: str) -> bytes:
        try:
            return base64.b64decode(data[key], validate=True)
        except (KeyError, binascii.Error) as exc:
            raise self._unreadable(key, exc) from exc

    def _unreadable(self, key: str, exc: Exception) -> AuthorityUnreadable:
        stem = key.partition(".")[0]
        return AuthorityUnreadable(
            f"{self.title} holds no authority, {key} cannot be read ({exc!r}); {self._way_out(stem)}"
        )

    def _date(self, annotations: dict[str, str], key: str) -> datetime | None:
        text = annotations.get(key)
        if not text:
            return None
        try:
            date = datetime.fromisoformat(text)
        except ValueError:
            return None  # then it is as if it were today
        return date if date.tzinfo is not None else date.replace(tzinfo=UTC)

    def _way_out(self, stem: str) -> str:
        remove = f"kubectl patch secret {self._name} -n {self._namespace} --type=merge -p"
        if stem == "next":
            return (
                f"""for a replacement without it: {remove} '{{"data":{{"next.crt":null,"next.key":null}}}}'"""
            )
        if stem == "former":
            return f"""to trust none of them: {remove} '{{"data":{{"former.crt":null}}}}'"""
        return (
            f"restore it, or delete it (kubectl delete secret {self._name} -n {self._namespace}): a replica"
            " that has read it writes it again; where none runs, there will be a new authority, which"
            " schedulers have to be given"
        )


def _has_next(data: dict[str, str]) -> bool:
    return "next.crt" in data or "next.key" in data


def _data(state: AuthorityState) -> dict[str, str | None]:
    """None for what is not there: a merge patch removes it."""
    following = state.next
    return {
        "tls.crt": _base64(state.current.certificate),
        "tls.key": _base64(state.current.key),
        "next.crt": _base64(following.certificate) if following else None,
        "next.key": _base64(following.key) if following else None,
        "former.crt": _base64(b"".join(state.former)) if state.former else None,
    }


def _annotations(state: AuthorityState) -> dict[str, str | None]:
    return {
        PUBLISHED_ANNOTATION: state.published.isoformat() if state.published else None,
        SWITCHED_ANNOTATION: state.switched.isoformat() if state.switched else None,
        REQUEST_ANNOTATION: state.request or None,
    }


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
