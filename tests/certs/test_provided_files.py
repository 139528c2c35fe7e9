"""A certificate that somebody else issues: what is wrong with its files is said by name, and nothing is
written.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs import authority
from certs.authority import CertificateError, FilesUnusable, KeyPair
from certs.renewal import CertificateRenewal, CertificateSettings
from certs.serving import check_files, given_files
from cluster.metrics import Metrics
from tests.support.certs.stored_objects import StoredObjects

NOW = datetime.now(UTC).replace(microsecond=0)
NAME = "sluice.sluice-system.svc"
CA = authority.create(name="another", now=NOW)


def pair(*dns: str, now: datetime = NOW, days: int = 90) -> KeyPair:
    return CA.serving(now=now, dns=dns or [NAME], validity=timedelta(days=days))


PAST, FUTURE = pair(now=NOW - timedelta(days=91)), pair(now=NOW + timedelta(days=5))
OTHER, WIDER = pair("localhost"), pair("*.svc")


def stored(folder: Path, certificate: bytes, key: bytes) -> Path:
    """As in a volume of a Secret."""
    for path, content in zip(given_files(folder), (certificate, key), strict=True):
        path.write_bytes(content)
    return folder


@pytest.mark.parametrize("names", [(NAME,), ("other", NAME), ("*.sluice-system.svc",)])
def test_a_pair_for_our_name_is_taken(tmp_path: Path, names: tuple[str, ...]) -> None:
    made = pair(*names)
    folder = stored(tmp_path, made.certificate + CA.certificate, made.key)
    assert check_files(folder, name=NAME, now=NOW) == NOW + timedelta(days=90)


@pytest.mark.parametrize(
    ("certificate", "key", "said"),
    [
        (pair().certificate, pair().key, "does not fit"),
        (b"", pair().key, "cannot be read"),
        (pair().certificate, b"nonsense", "cannot be read"),
        (PAST.certificate, PAST.key, "has expired"),
        (FUTURE.certificate, FUTURE.key, "a clock is wrong"),
        (OTHER.certificate, OTHER.key, f"is not for {NAME}"),
        (WIDER.certificate, WIDER.key, f"is not for {NAME}"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(
    tmp_path: Path, certificate: bytes, key: bytes, said: str
) -> None:
    folder = stored(tmp_path, certificate, key)
    with pytest.raises(FilesUnusable, match=said) as refused:
        check_files(folder, name=NAME, now=NOW)
    assert str(tmp_path) in str(refused.value)


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(FilesUnusable, match=r"tls\.crt"):
        check_files(tmp_path, name=NAME, now=NOW)


def test_a_clock_that_is_an_hour_behind_changes_nothing(tmp_path: Path) -> None:
    made = pair(now=NOW + timedelta(days=1, minutes=59))
    assert check_files(stored(tmp_path, made.certificate, made.key), name=NAME, now=NOW + timedelta(hours=1))


class Given:
    """A server whose certificate somebody else writes; no request may be sent."""

    def __init__(self, folder: Path) -> None:
        self.metrics = Metrics()
        self.folder = folder / "tls"
        self.folder.mkdir()
        self.put(pair())
        self.own = folder / "own"
        self.renewal = CertificateRenewal(
            CertificateSettings(
                folder=self.own,
                hosts=[NAME],
                namespace="sluice-system",
                given=self.folder,
                name=NAME,
            ),
            client=StoredObjects(before=self._refuse),  # type: ignore[arg-type]
            metrics=self.metrics,
        )

    def put(self, made: KeyPair) -> None:
        stored(self.folder, made.certificate, made.key)

    def expiry(self) -> float | None:
        return self.metrics.registry.get_sample_value(
            "sluice_certificate_expiry_timestamp_seconds", {"certificate": "serving"}
        )

    @staticmethod
    def _refuse(verb: str, path: str) -> None:
        raise AssertionError(f"{verb} {path}")


@pytest.fixture
def given(tmp_path: Path) -> Given:
    return Given(tmp_path)


def test_the_files_are_served_and_nothing_is_issued_or_written(given: Given) -> None:
    given.renewal.prepare()
    given.renewal._update()
    assert given.expiry() == (NOW + timedelta(days=90)).timestamp()
    assert not given.own.exists()
    assert given.metrics.registry.get_sample_value("sluice_failures_total", {"step": "certificates"}) is None


def test_a_renewed_file_is_noticed(given: Given) -> None:
    given.renewal.prepare()
    given.put(pair(days=120))
    given.renewal._update()
    assert given.expiry() == (NOW + timedelta(days=120)).timestamp()


def test_files_that_cannot_be_served_end_the_start(given: Given) -> None:
    (given.folder / "tls.key").write_bytes(CA.key)
    with pytest.raises(CertificateError, match="does not fit"):
        given.renewal.prepare()


def test_what_is_served_stays_while_the_files_cannot_be(
    given: Given, caplog: pytest.LogCaptureFixture
) -> None:
    given.renewal.prepare()
    (given.folder / "tls.key").write_bytes(CA.key)
    given.renewal._update()
    assert given.expiry() == (NOW + timedelta(days=90)).timestamp()
    assert given.metrics.registry.get_sample_value("sluice_failures_total", {"step": "certificates"}) == 1
    assert "does not fit" in caplog.text


@pytest.mark.parametrize(("days", "warned", "missing"), [(30, False, 0), (15, True, 0), (1, True, 0)])
def test_the_log_says_it_before_the_certificate_expires(
    given: Given, caplog: pytest.LogCaptureFixture, days: int, warned: bool, missing: int
) -> None:
    given.put(pair(days=days))
    given.renewal.prepare()
    for _ in range(3):
        given.renewal._update()
    assert caplog.text.count("has not been renewed") == warned
    assert len(given.renewal.expired()) == missing


def test_readyz_says_that_the_certificate_has_expired(given: Given) -> None:
    given.renewal.prepare()
    assert given.renewal.expired() == []
    vars(given.renewal._client)["clock_skew"] = 91 * 86_400.0
    [line] = given.renewal.expired()
    assert "has expired" in line
