"""A client for each API server of the cluster.

One address may stand for several API servers. Each has its own caches: a label that was written through one
may not have reached another, which then does not call the webhooks that select by this label. Code that needs
all API servers to know the label asks each of them (`controller.stops.bind_guard`).

The API servers are those of the setting `api_servers`. Without it, they are the addresses in the
EndpointSlices of the Service `kubernetes` in `default`, if there are several: each API server keeps its own
address there, and the address of one that is gone is removed. Otherwise there is one: the configured one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import msgspec

from cluster.api.client import Client, decode_response

SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
#: An API server that joins later has read everything anew, so it has the present labels.
REFRESH_SECONDS = 5.0
#: The certificate of every API server has this name, whatever its addresses.
API_SERVER_NAME = "kubernetes.default.svc"


class Endpoint(msgspec.Struct, frozen=True):
    addresses: list[str] | None = None


class Port(msgspec.Struct, frozen=True):
    name: str | None = None
    port: int | None = None


class Slice(msgspec.Struct, frozen=True):
    endpoints: list[Endpoint] | None = None
    ports: list[Port] | None = None


class EndpointSliceList(msgspec.Struct, frozen=True):
    items: list[Slice] | None = None


_slices = msgspec.json.Decoder(EndpointSliceList)


class ApiServerEndpoints:
    """Keeps a client of each API server. For any thread."""

    def __init__(
        self,
        client: Client,
        *,
        connect: Callable[[str], Client],
        clock: Callable[[], float],
        urls: Sequence[str] = (),
    ) -> None:
        """`client`: for the configured address. `connect`: makes a client for a URL."""
        self._client = client
        self._connect = connect
        self._clock = clock
        self._urls = tuple(urls)
        self._clients: dict[str, Client] = {}
        self._read_at = float("-inf")
        self._lock = threading.Lock()

    def all(self) -> list[Client]:
        """Return a client of each present API server. Raises `cluster.exceptions.ClusterError`."""
        with self._lock:
            if self._clock() >= self._read_at + REFRESH_SECONDS:
                urls = self._urls or self._discovered()
                self._clients = {url: self._clients.get(url) or self._connect(url) for url in urls}
                self._read_at = self._clock()
            return list(self._clients.values()) or [self._client]

    def _discovered(self) -> tuple[str, ...]:
        """Return the URLs of several API servers; none if there is one, which is the configured one."""
        slices = decode_response(
            self._client.get(SLICES, labelSelector="kubernetes.io/service-name=kubernetes"), _slices
        )
        urls = sorted({url for each in slices.items or () for url in slice_urls(each)})
        return tuple(urls) if len(urls) > 1 else ()


def slice_urls(each: Slice) -> list[str]:
    """Return the addresses of an EndpointSlice as URLs."""
    port = next(
        (entry.port for entry in each.ports or () if entry.name in {"https", None, ""} and entry.port), 443
    )
    hosts = [host for endpoint in each.endpoints or () for host in endpoint.addresses or ()]
    return [f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}" for host in hosts]
