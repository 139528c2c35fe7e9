from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, fields
from pathlib import Path

import pytest

from localcluster import addresses
from localcluster.addresses import Ports
from localcluster.exceptions import StartFailed


@pytest.fixture(autouse=True)
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return addresses.registry()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few ports that two clusters meet at once unless they take care; nobody listens on any."""
    monkeypatch.setattr(addresses, "RANGE", range(31000, 31000 + 40))
    monkeypatch.setattr(addresses, "_is_free", lambda _: True)


def chosen(folder: Path) -> Ports:
    folder.mkdir(parents=True, exist_ok=True)
    return addresses.kept(folder / "ports.json")


def _several(folder: Path, numbers: range) -> list[int]:
    return [port for number in numbers for port in astuple(chosen(folder / str(number)))]


def test_each_listener_gets_a_port_of_its_own(tmp_path: Path) -> None:
    ports = astuple(chosen(tmp_path))
    assert len(set(ports)) == len(ports)


def test_ports_lie_below_those_that_the_system_hands_out(tmp_path: Path) -> None:
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(astuple(chosen(tmp_path))) < low


def test_a_port_in_use_is_not_chosen(tmp_path: Path) -> None:
    port = chosen(tmp_path).etcd
    with socket.socket() as taken:
        taken.bind((addresses.LOOPBACK, port))
        taken.listen()
        assert not addresses._is_free(port)


def test_ports_are_kept_as_long_as_their_file(tmp_path: Path) -> None:
    assert chosen(tmp_path) == chosen(tmp_path)


@pytest.mark.usefixtures("few")
def test_no_two_clusters_hold_the_same_though_nobody_listens_yet(tmp_path: Path) -> None:
    held = _several(tmp_path, range(5))
    assert len(set(held)) == len(held)
    with pytest.raises(StartFailed, match="no port from 31000 to 31039 is free"):
        chosen(tmp_path / "one too many")


@pytest.mark.usefixtures("few")
def test_a_cluster_that_is_gone_holds_nothing(tmp_path: Path) -> None:
    for number in range(20):
        chosen(tmp_path / str(number))
        shutil.rmtree(tmp_path / str(number))


@pytest.mark.usefixtures("few")
def test_a_spare_port_is_held_like_the_others(tmp_path: Path) -> None:
    ports = [*astuple(chosen(tmp_path)), *(addresses.spare(tmp_path / "ports.json") for _ in range(33))]
    assert sorted(ports) == list(addresses.RANGE)


def test_clusters_that_start_at_once_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty clusters, and ports for no more."""
    monkeypatch.setattr(addresses, "RANGE", range(31000, 31000 + 20 * len(fields(Ports))))
    monkeypatch.setattr(addresses, "_is_free", lambda _: True)
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(_several, tmp_path, range(first, first + 10)) for first in (0, 10)]
        held = [port for one in asked for port in one.result()]
    assert sorted(held) == list(addresses.RANGE)


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_text('{"2')])
def test_a_registry_that_is_lost_or_spoilt_begins_anew(
    tmp_path: Path, registry: Path, spoil: Callable[[Path], object]
) -> None:
    chosen(tmp_path / "a")
    spoil(registry)
    assert set(astuple(chosen(tmp_path / "b"))) == {int(port) for port in json.loads(registry.read_bytes())}
