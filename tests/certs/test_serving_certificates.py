"""The server's own certificate: kept while it is good, renewed before it is not."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from certs import authority
from certs.authority import LEAF_VALIDITY, Authority, AuthorityUnreadable
from certs.serving import ensure, is_ip
from tests.support.cases import each_case

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
HOSTS = ("sluice.sluice-system.svc", "localhost", "127.0.0.1")


def ensured(folder: Path, *, hosts: Sequence[str] = HOSTS, now: datetime = NOW) -> Authority:
    """The authority; what is served there now verifies against it and is a pair."""
    found = ensure(folder, hosts=hosts, now=now)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(folder / "serving.crt", folder / "serving.key")
    store = Store([x509.load_pem_x509_certificate(found.certificate)])
    for host in hosts:
        name = x509.IPAddress(ip_address(host)) if is_ip(host) else x509.DNSName(host)
        PolicyBuilder().store(store).time(now).build_server_verifier(name).verify(
            x509.load_pem_x509_certificate(served(folder)), []
        )
    return found


def served(folder: Path) -> bytes:
    return (folder / "serving.crt").read_bytes()


def test_a_certificate_for_all_hosts_is_made_where_there_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "here"
    assert ensured(folder).certificate == (folder / "ca.crt").read_bytes()


def test_a_valid_certificate_is_kept(tmp_path: Path) -> None:
    ensured(tmp_path)
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    ensured(tmp_path, now=NOW + timedelta(days=1))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files


@pytest.mark.parametrize(
    ("left", "renewed"),
    [(timedelta(days=123), False), (timedelta(days=121), True), (timedelta(), True), (-LEAF_VALIDITY, True)],
)
def test_a_certificate_is_renewed_when_a_third_of_its_validity_is_left(
    tmp_path: Path, left: timedelta, renewed: bool
) -> None:
    before = ensured(tmp_path), served(tmp_path)
    later = ensured(tmp_path, now=NOW + LEAF_VALIDITY - left)
    assert (served(tmp_path) != before[1]) is renewed
    assert later == before[0], "the authority stays"


def test_an_added_host_renews_the_certificate_and_keeps_the_authority(tmp_path: Path) -> None:
    before = ensured(tmp_path)
    assert ensured(tmp_path, hosts=(*HOSTS, "10.0.0.9", "more.example")) == before


@pytest.mark.parametrize("other", ["127.0.0.2", "::1", "localhost.localdomain", "sluice.other.svc"])
def test_another_host_renews_the_certificate(tmp_path: Path, other: str) -> None:
    ensured(tmp_path)
    before = served(tmp_path)
    ensured(tmp_path, hosts=(other,))
    assert served(tmp_path) != before


def test_hosts_in_another_order_are_the_same_hosts(tmp_path: Path) -> None:
    ensured(tmp_path)
    before = served(tmp_path)
    ensured(tmp_path, hosts=HOSTS[::-1])
    assert served(tmp_path) == before


def test_an_address_spelt_otherwise_is_the_same_address(tmp_path: Path) -> None:
    ensured(tmp_path, hosts=("fd00:0:0:0:0:0:0:1",))
    before = served(tmp_path)
    ensured(tmp_path, hosts=("fd00::1",))
    ensured(tmp_path, hosts=("fd00:0:0:0:0:0:0:1",))
    assert served(tmp_path) == before


@pytest.mark.parametrize("content", [b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
@pytest.mark.parametrize("name", ["serving.crt", "serving.key"])
def test_a_damaged_file_is_made_anew(tmp_path: Path, name: str, content: bytes) -> None:
    ensured(tmp_path)
    (tmp_path / name).write_bytes(content)
    ensured(tmp_path)


@pytest.mark.parametrize("name", ["serving.crt", "serving.key"])
def test_a_missing_file_is_made_anew(tmp_path: Path, name: str) -> None:
    ensured(tmp_path)
    (tmp_path / name).unlink()
    ensured(tmp_path)


def test_a_key_of_another_pair_has_both_made_anew(tmp_path: Path) -> None:
    """A crash between the two writes leaves the new key beside the old certificate."""
    found = ensured(tmp_path)
    other = found.serving(now=NOW, dns=["localhost"])
    authority.write(tmp_path / "serving.key", other.key, mode=0o600)
    ensured(tmp_path)


def test_a_certificate_of_another_authority_is_made_anew(tmp_path: Path) -> None:
    ensured(tmp_path)
    authority.create(name="other", now=NOW).serving(
        now=NOW, dns=["sluice.sluice-system.svc", "localhost"], ips=["127.0.0.1"]
    ).save(tmp_path, stem="serving")
    ensured(tmp_path)


def test_a_certificate_that_is_not_valid_yet_is_renewed(tmp_path: Path) -> None:
    """The clock was wrong when it was made."""
    ensured(tmp_path, now=NOW + timedelta(days=3))
    ensured_now = authority.load(tmp_path)
    before = served(tmp_path)
    ensure(tmp_path, hosts=HOSTS, now=NOW + timedelta(days=1))
    assert served(tmp_path) != before
    assert authority.load(tmp_path) == ensured_now


def test_a_damaged_authority_is_not_replaced_in_silence(tmp_path: Path) -> None:
    """Whoever trusts it would trust the new one no more."""
    ensured(tmp_path)
    (tmp_path / "ca.key").write_bytes(b"nonsense")
    with pytest.raises(AuthorityUnreadable, match="remove both files"):
        ensure(tmp_path, hosts=HOSTS, now=NOW)


@each_case(
    ("host", "expected"),
    [
        ("10.0.0.1", True),
        ("::1", True),
        ("localhost", False),
        ("10.0.0", False),
        ("[::1]", False),
        ("", False),
    ],
)
def test_addresses_and_names_are_told_apart(host: str, expected: bool) -> None:
    assert is_ip(host) is expected
