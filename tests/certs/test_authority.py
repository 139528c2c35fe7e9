from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store

from certs import authority
from certs.authority import Authority, AuthorityUnreadable, KeyPair

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def ca() -> Authority:
    return authority.create(name="test", now=NOW)


def read(pair: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


def verifier(ca: Authority) -> PolicyBuilder:
    return PolicyBuilder().store(Store([read(ca)])).time(NOW)


def test_a_serving_certificate_is_good_for_its_names_and_addresses(ca: Authority) -> None:
    pair = ca.serving(dns=["sluice.sluice-system.svc"], ips=["127.0.0.1"], now=NOW)
    for name in (x509.DNSName("sluice.sluice-system.svc"), x509.IPAddress(ip_address("127.0.0.1"))):
        verifier(ca).build_server_verifier(name).verify(read(pair), [])


def test_a_serving_certificate_without_a_name_is_refused(ca: Authority) -> None:
    with pytest.raises(ValueError, match="DNS name or an address"):
        ca.serving(now=NOW)


def test_a_client_certificate_names_the_user_and_the_groups(ca: Authority) -> None:
    subject = read(ca.client(name="alice", organisations=["a", "b"], now=NOW)).subject
    assert [each.value for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["alice"]
    assert [each.value for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["a", "b"]


def test_a_client_certificate_serves_nothing(ca: Authority) -> None:
    usage = read(ca.client(name="a", now=NOW)).extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    assert list(usage.value) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_a_user_name_that_is_too_long_is_refused(ca: Authority) -> None:
    with pytest.raises(ValueError, match="64"):
        ca.client(name="a" * 65, now=NOW)


def test_a_long_dns_name_is_served(ca: Authority) -> None:
    name = ".".join(["n" * 40] * 4)
    pair = ca.serving(dns=[name], now=NOW)
    verifier(ca).build_server_verifier(x509.DNSName(name)).verify(read(pair), [])


def test_keys_are_p256(ca: Authority) -> None:
    for pair in (ca, ca.client(name="a", now=NOW)):
        key = read(pair).public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        assert isinstance(key.curve, ec.SECP256R1)


def test_a_certificate_is_valid_for_a_peer_whose_clock_is_behind(ca: Authority) -> None:
    leaf = read(ca.client(name="a", now=NOW))
    assert leaf.not_valid_before_utc == NOW - timedelta(days=1)
    assert read(ca).not_valid_before_utc == NOW - timedelta(days=1)


def test_an_authority_lasts_ten_years_and_a_leaf_one(ca: Authority) -> None:
    assert authority.expires(ca.certificate) == NOW + timedelta(days=3650)
    assert authority.expires(ca.client(name="a", now=NOW).certificate) == NOW + timedelta(days=365)


def test_a_certificate_has_the_validity_that_was_asked_for(ca: Authority) -> None:
    leaf = ca.client(name="a", now=NOW, validity=timedelta(hours=1))
    assert authority.expires(leaf.certificate) == NOW + timedelta(hours=1)


def test_a_saved_authority_is_loaded(ca: Authority, tmp_path: Path) -> None:
    ca.save(tmp_path, stem="ca")
    assert authority.load(tmp_path) == ca


def test_only_the_owner_can_read_a_key_and_no_temporary_file_is_left(ca: Authority, tmp_path: Path) -> None:
    certificate, key = ca.save(tmp_path, stem="ca")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert set(tmp_path.iterdir()) == {certificate, key}


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    authority.write(path, b"old", mode=0o644)
    with pytest.raises(TypeError):
        authority.write(path, "not bytes", mode=0o644)  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_authority_says_so(tmp_path: Path) -> None:
    with pytest.raises(AuthorityUnreadable, match="cannot be read"):
        authority.load(tmp_path)


def test_a_damaged_authority_says_so(ca: Authority, tmp_path: Path) -> None:
    ca.save(tmp_path, stem="ca")
    (tmp_path / "ca.key").write_bytes(b"damaged")
    with pytest.raises(AuthorityUnreadable, match="remove both files"):
        authority.load(tmp_path)


def test_halves_of_two_authorities_are_not_one(ca: Authority, tmp_path: Path) -> None:
    ca.save(tmp_path, stem="ca")
    authority.write(tmp_path / "ca.key", authority.create(name="other", now=NOW).key, mode=0o600)
    with pytest.raises(AuthorityUnreadable, match="two different pairs"):
        authority.load(tmp_path)


def test_processes_that_create_an_authority_at_once_get_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: authority.load_or_create(tmp_path, name="t", now=NOW), range(8)))
    assert len(set(made)) == 1
