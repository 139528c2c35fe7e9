from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, fields
from pathlib import Path

import pytest

from localcluster import ports as ports_module
from localcluster.exceptions import StartFailed
from localcluster.ports import LOOPBACK, Ports, ensure_ports, spare_port
from localcluster.ports import registry as registry_path


@pytest.fixture(autouse=True)
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A registry of the test's own, on a machine with the usual range for outgoing connections."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    leave(monkeypatch, tmp_path, outgoing="32768\t60999")
    return registry_path()


def leave(monkeypatch: pytest.MonkeyPatch, folder: Path, *, outgoing: str) -> None:
    """The machine takes these ports for outgoing connections."""
    (folder / "outgoing").write_text(f"{outgoing}\n")
    monkeypatch.setattr(ports_module, "OUTGOING", folder / "outgoing")


@pytest.fixture
def small_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few ports that two clusters would collide at once; nobody listens on any of them."""
    monkeypatch.setattr(ports_module, "RANGE", range(31000, 31000 + 40))
    monkeypatch.setattr(ports_module, "_is_free", lambda _: True)


def allocate(folder: Path) -> Ports:
    folder.mkdir(parents=True, exist_ok=True)
    return ensure_ports(folder / "ports.json")


def _several(folder: Path, numbers: range) -> list[int]:
    return [port for number in numbers for port in astuple(allocate(folder / str(number)))]


def test_each_listener_gets_a_port_of_its_own(tmp_path: Path) -> None:
    ports = astuple(allocate(tmp_path))
    assert len(set(ports)) == len(ports)


@pytest.mark.parametrize(
    ("outgoing", "allowed"),
    [
        ("32768\t60999", range(20000, 32000)),
        ("20500\t60999", range(20000, 20500)),
        ("10000\t65535", range(5000, 10000)),
        ("1024\t65000", range(65001, 65536)),
        ("20005\t65535", range(5000, 20005)),
        ("", range(20000, 32000)),
    ],
)
def test_ports_lie_outside_the_range_for_outgoing_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outgoing: str, allowed: range
) -> None:
    leave(monkeypatch, tmp_path, outgoing=outgoing)
    assert {*astuple(allocate(tmp_path))} <= {*allowed}


def test_where_outgoing_connections_take_all_ports_clusters_have_some_nevertheless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(monkeypatch, tmp_path, outgoing="1024\t65535")
    assert {*astuple(allocate(tmp_path))} <= {*range(20000, 32000)}


def test_a_port_in_use_is_not_free() -> None:
    """One that no cluster gets: those that start beside this test would miss it."""
    with socket.create_server((LOOPBACK, 0)) as taken:
        assert not ports_module._is_free(taken.getsockname()[1])


def test_a_cluster_keeps_its_ports(tmp_path: Path) -> None:
    assert allocate(tmp_path) == allocate(tmp_path)


@pytest.mark.usefixtures("small_range")
def test_two_clusters_never_have_the_same_port_even_if_nobody_listens_yet(tmp_path: Path) -> None:
    allocated = _several(tmp_path, range(4))
    assert len(set(allocated)) == len(allocated)
    with pytest.raises(StartFailed, match="no port from 31000 to 31039 is free"):
        allocate(tmp_path / "one too many")


@pytest.mark.usefixtures("small_range")
def test_a_removed_cluster_has_no_ports(tmp_path: Path) -> None:
    for number in range(20):
        allocate(tmp_path / str(number))
        shutil.rmtree(tmp_path / str(number))


@pytest.mark.usefixtures("small_range")
def test_a_spare_port_is_allocated_like_the_others(tmp_path: Path) -> None:
    left = 40 - len(fields(Ports))
    ports = [*astuple(allocate(tmp_path)), *(spare_port(tmp_path / "ports.json") for _ in range(left))]
    assert sorted(ports) == list(ports_module.RANGE)


def test_clusters_that_start_at_the_same_time_do_not_collide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty clusters, and ports for no more."""
    monkeypatch.setattr(ports_module, "RANGE", range(31000, 31000 + 20 * len(fields(Ports))))
    monkeypatch.setattr(ports_module, "_is_free", lambda _: True)
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(_several, tmp_path, range(first, first + 10)) for first in (0, 10)]
        allocated = [port for future in futures for port in future.result()]
    assert sorted(allocated) == list(ports_module.RANGE)


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text('{"2')])
def test_a_lost_or_damaged_registry_starts_empty(
    tmp_path: Path, registry: Path, damage: Callable[[Path], object]
) -> None:
    allocate(tmp_path / "a")
    damage(registry)
    assert set(astuple(allocate(tmp_path / "b"))) == {int(port) for port in json.loads(registry.read_bytes())}
