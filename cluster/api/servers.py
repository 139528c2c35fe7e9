"""The API servers of the cluster, each by itself.

One address may stand for several API servers. Each has caches of its own: a label that was written through
one may not have reached another, which then does not call the webhooks that select by it. Whoever has to know
that all of them do asks each (`controller.stops.bind_guard`).

They are those of the setting `api_servers`; else those that the EndpointSlices of the Service `kubernetes` in
`default` name, where there are several (each API server keeps its own address there, and the address of one
that is gone is taken off); else the one that we are configured with.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import msgspec

from cluster.api.client import Client, decode_response

SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
#: One that has just joined has read everything anew, and so has the labels that there are.
REFRESH_SECONDS = 5.0
#: An API server's certificate serves this name, whatever its addresses.
API_SERVER_NAME = "kubernetes.default.svc"


class Endpoint(msgspec.Struct, frozen=True):
    addresses: list[str] | None = None


class Port(msgspec.Struct, frozen=True):
    name: str | None = None
    port: int | None = None


class Slice(msgspec.Struct, frozen=True):
    endpoints: list[Endpoint] | None = None
    ports: list[Port] | None = None


class Slices(msgspec.Struct, frozen=True):
    items: list[Slice] | None = None


_slices = msgspec.json.Decoder(Slices)


class ApiServerEndpoints:
    """A client of each. Any thread may ask."""

    def __init__(
        self,
        client: Client,
        *,
        connect: Callable[[str], Client],
        clock: Callable[[], float],
        urls: Sequence[str] = (),
    ) -> None:
        """`client`: of the address that we are configured with. `connect`: makes one of a URL."""
        self._client = client
        self._connect = connect
        self._clock = clock
        self._urls = tuple(urls)
        self._clients: dict[str, Client] = {}
        self._read_at = float("-inf")
        self._lock = threading.Lock()

    def all(self) -> list[Client]:
        """A client of each API server there is now. Raises `cluster.exceptions.ClusterError`."""
        with self._lock:
            if self._clock() >= self._read_at + REFRESH_SECONDS:
                urls = self._urls or self._discovered()
                self._clients = {url: self._clients.get(url) or self._connect(url) for url in urls}
                self._read_at = self._clock()
            return list(self._clients.values()) or [self._client]

    def _discovered(self) -> tuple[str, ...]:
        """Where there is but one it is the one that we are configured with."""
        slices = decode_response(
            self._client.get(SLICES, labelSelector="kubernetes.io/service-name=kubernetes"), _slices
        )
        urls = sorted({url for each in slices.items or () for url in slice_urls(each)})
        return tuple(urls) if len(urls) > 1 else ()


def slice_urls(each: Slice) -> list[str]:
    """The addresses of a slice as URLs."""
    port = next(
        (entry.port for entry in each.ports or () if entry.name in {"https", None, ""} and entry.port), 443
    )
    hosts = [host for endpoint in each.endpoints or () for host in endpoint.addresses or ()]
    return [f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}" for host in hosts]
