from __future__ import annotations

import socket
from dataclasses import astuple
from pathlib import Path

from localcluster import addresses


def test_each_listener_gets_a_port_of_its_own() -> None:
    chosen = astuple(addresses.choose())
    assert len(set(chosen)) == len(chosen)


def test_ports_lie_below_those_that_the_system_hands_out() -> None:
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(astuple(addresses.choose())) < low


def test_a_port_in_use_is_not_chosen() -> None:
    port = addresses.choose().etcd
    with socket.socket() as taken:
        taken.bind((addresses.LOOPBACK, port))
        taken.listen()
        assert not addresses._is_free(port)


def test_ports_are_kept_as_long_as_their_file(tmp_path: Path) -> None:
    first = addresses.kept(tmp_path / "ports.json")
    assert addresses.kept(tmp_path / "ports.json") == first
