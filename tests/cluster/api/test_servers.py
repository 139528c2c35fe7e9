"""Which API servers are asked, and when they are looked up again."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from cluster.api.client import Client
from cluster.api.servers import (
    REFRESH_SECONDS,
    SLICES,
    ApiServerEndpoints,
    Endpoint,
    Port,
    Slice,
    slice_urls,
)
from cluster.exceptions import ClusterError, Refused
from tests.support.cases import each_case

A, B, C = "https://10.0.0.1:6443", "https://10.0.0.2:6443", "https://10.0.0.3:6443"


class Configured:
    """The client of the address that the server is configured with. Answers with `slices`."""

    def __init__(self, *slices: Slice) -> None:
        self.slices = slices
        self.asked: list[tuple[str, str]] = []
        self.refuses = False

    def get(self, path: str, **query: str) -> bytes:
        self.asked.append((path, query["labelSelector"]))
        if self.refuses:
            raise Refused(403, "Forbidden", "as ordered")
        return msgspec.json.encode({"items": self.slices})


class World:
    """The API servers as one server knows them, at a time that the test sets."""

    def __init__(self, *slices: Slice, urls: tuple[str, ...] = ()) -> None:
        self.now = 0.0
        self.configured = Configured(*slices)
        self.connected: list[str] = []
        self.api_servers = ApiServerEndpoints(
            cast(Client, self.configured), connect=self._connect, clock=lambda: self.now, urls=urls
        )

    def _connect(self, url: str) -> Client:
        self.connected.append(url)
        return cast(Client, f"client of {url}")

    def all(self) -> list[Any]:
        return list(self.api_servers.all())


def slice_of(*hosts: str, port: int | None = 6443, name: str | None = "https") -> Slice:
    return Slice(endpoints=[Endpoint([host]) for host in hosts], ports=[Port(name, port)])


@each_case(
    ("given", "urls"),
    [
        (slice_of("10.0.0.1"), [A]),
        (slice_of("10.0.0.1", "10.0.0.2"), [A, B]),
        (Slice(endpoints=[Endpoint(["10.0.0.1", "10.0.0.2"])], ports=[Port("https", 6443)]), [A, B]),
        (slice_of("fd00::1"), ["https://[fd00::1]:6443"]),
        (slice_of("10.0.0.1", name=None), [A]),
        (slice_of("10.0.0.1", port=None), ["https://10.0.0.1:443"]),
        (
            Slice(endpoints=[Endpoint(["10.0.0.1"])], ports=[Port("metrics", 80), Port("https", 6443)]),
            [A],
        ),
        (Slice(endpoints=[Endpoint(["10.0.0.1"])]), ["https://10.0.0.1:443"]),
        (Slice(endpoints=[Endpoint(None)], ports=[Port("https", 6443)]), []),
        (Slice(), []),
    ],
)
def test_the_addresses_of_a_slice(given: Slice, urls: list[str]) -> None:
    assert slice_urls(given) == urls


@pytest.mark.parametrize("slices", [(), (Slice(),), (slice_of("10.0.0.1"),)], ids=["none", "empty", "one"])
def test_where_there_is_one_it_is_the_configured_one(slices: tuple[Slice, ...]) -> None:
    """Its address in the EndpointSlice may be one that only the nodes can reach."""
    world = World(*slices)
    assert world.all() == [world.configured]
    assert world.configured.asked == [(SLICES, "kubernetes.io/service-name=kubernetes")]


def test_where_there_are_several_each_has_a_client() -> None:
    """Of several slices an address counts once."""
    world = World(slice_of("10.0.0.2", "10.0.0.1"), slice_of("10.0.0.2", "10.0.0.3"))
    assert world.all() == [f"client of {url}" for url in (A, B, C)]


def test_those_of_the_setting_count_and_nothing_is_looked_up() -> None:
    world = World(slice_of("10.0.0.1", "10.0.0.2"), urls=(C,))
    assert world.all() == [f"client of {C}"]
    assert world.configured.asked == []


def test_they_are_looked_up_again_after_a_while_and_clients_are_kept() -> None:
    world = World(slice_of("10.0.0.1", "10.0.0.2"))
    world.all()
    world.configured.slices = (slice_of("10.0.0.2", "10.0.0.3"),)
    world.now += REFRESH_SECONDS / 2
    assert world.all() == [f"client of {url}" for url in (A, B)]
    world.now += REFRESH_SECONDS
    assert world.all() == [f"client of {url}" for url in (B, C)]
    assert world.connected == [A, B, C]
    assert len(world.configured.asked) == 2


def test_one_that_is_taken_off_is_asked_no_more() -> None:
    world = World(slice_of("10.0.0.1", "10.0.0.2"))
    world.all()
    world.configured.slices = (slice_of("10.0.0.1"),)
    world.now += REFRESH_SECONDS
    assert world.all() == [world.configured]


def test_that_they_cannot_be_listed_is_an_error_until_they_can() -> None:
    """Nothing is concluded from a former list: one that has joined since may not be on it."""
    world = World(slice_of("10.0.0.1", "10.0.0.2"))
    world.all()
    world.now += REFRESH_SECONDS
    world.configured.refuses = True
    for _ in range(2):
        with pytest.raises(ClusterError):
            world.all()
    world.configured.refuses = False
    assert world.all() == [f"client of {url}" for url in (A, B)]
