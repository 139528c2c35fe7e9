"""What a replica serves, says of it on its Lease and in its metrics, and logs when something fails."""

from __future__ import annotations

import base64
from datetime import timedelta
from pathlib import Path

import pytest

from certs.authority import expires, fingerprint, split
from certs.renewal import (
    BACKOFF,
    CHECK_SECONDS,
    RETRY_SECONDS,
    UPGRADE_SECONDS,
    CertificateRenewal,
    CertificateSettings,
)
from cluster.exceptions import Unreachable
from cluster.metrics import Metrics
from tests.support.certs.stored_objects import StoredObjects

HOSTS = ("sluice.sluice-system.svc", "127.0.0.1")
SECRET = "/api/v1/namespaces/sluice-system/secrets/sluice-ca"


class Replica:
    """A server with its authority in a Secret."""

    def __init__(self, folder: Path) -> None:
        self.api = StoredObjects()
        self.folder = folder
        self.metrics = Metrics()
        self.renewal = CertificateRenewal(
            CertificateSettings(folder=folder, hosts=HOSTS, namespace="sluice-system", secret="sluice-ca"),
            client=self.api,  # type: ignore[arg-type]
            metrics=self.metrics,
            identity="a",
        )

    def ask(self, step: str) -> None:
        self.api.patch(SECRET, {"metadata": {"annotations": {"sluice.dev/ca-rotation": step}}})

    def rounds(self, number: int = 4) -> None:
        for _ in range(number):
            self.renewal._update()

    def expiry(self, certificate: str) -> float | None:
        return self.metrics.registry.get_sample_value(
            "sluice_certificate_expiry_timestamp_seconds", {"certificate": certificate}
        )

    def stored(self, key: str) -> bytes:
        return base64.b64decode(self.api.objects[SECRET]["data"][key])


@pytest.fixture
def replica(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Replica:
    monkeypatch.setattr("certs.renewal.SERVED_SECONDS", 0.0)
    monkeypatch.setattr("certs.rotation.GRACE", timedelta())
    made = Replica(tmp_path / "certs")
    made.renewal.prepare()
    return made


def test_the_folder_has_what_is_served_and_what_to_trust_and_no_key_of_the_authority(
    replica: Replica,
) -> None:
    assert sorted(path.name for path in replica.folder.iterdir()) == ["ca.crt", "serving.crt", "serving.key"]
    assert (replica.folder / "ca.crt").read_bytes() == replica.stored("tls.crt")


def test_a_replica_says_by_what_it_serves_only_once_it_does(replica: Replica) -> None:
    assert replica.renewal.issuer == ""
    replica.rounds()
    assert replica.renewal.issuer == fingerprint(replica.stored("tls.crt"))


def test_until_the_worker_has_looked_it_says_what_it_served_before(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica.rounds()
    before = replica.renewal.issuer
    monkeypatch.setattr("certs.renewal.SERVED_SECONDS", 3600.0)
    replica.ask("start")
    replica.rounds()
    replica.ask("switch")
    replica.rounds()
    assert fingerprint(replica.stored("tls.crt")) != before
    assert replica.renewal.issuer == before


def test_the_metrics_say_when_each_certificate_expires(replica: Replica) -> None:
    replica.rounds()
    assert replica.expiry("serving") == expires((replica.folder / "serving.crt").read_bytes()).timestamp()
    assert replica.expiry("authority") == expires(replica.stored("tls.crt")).timestamp()
    assert replica.expiry("next_authority") is None
    replica.ask("start")
    replica.rounds()
    assert replica.expiry("next_authority") == expires(replica.stored("next.crt")).timestamp()
    replica.ask("switch")
    replica.rounds()
    assert replica.expiry("next_authority") is None


def test_the_certificate_is_of_the_next_authority_after_the_switch(replica: Replica) -> None:
    replica.ask("start")
    replica.rounds()
    before = (replica.folder / "serving.crt").read_bytes()
    assert len(split((replica.folder / "ca.crt").read_bytes())) == 2
    replica.ask("switch")
    replica.rounds()
    assert (replica.folder / "serving.crt").read_bytes() != before


def test_an_authority_that_cannot_be_used_is_said_and_what_is_served_stays(
    replica: Replica, caplog: pytest.LogCaptureFixture
) -> None:
    replica.rounds()
    before = (replica.folder / "serving.crt").read_bytes()
    replica.api.patch(SECRET, {"data": {"tls.key": ""}})
    assert replica.renewal._update() == BACKOFF.longest
    assert "tls.key" in caplog.text or "tls.crt" in caplog.text
    assert (replica.folder / "serving.crt").read_bytes() == before
    assert replica.metrics.registry.get_sample_value("sluice_failures_total", {"step": "certificates"}) == 1


def test_an_api_server_that_does_not_answer_is_asked_again_soon(replica: Replica) -> None:
    def fail(_verb: str, _path: str) -> None:
        raise Unreachable("cut")

    replica.api.before = fail
    assert replica.renewal._update() == RETRY_SECONDS


def test_after_a_start_the_webhooks_are_looked_at_every_second(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upgrade brings new ones beside new replicas; without `caBundle` each call of them fails."""
    now = 1000.0
    monkeypatch.setattr("certs.renewal.time.monotonic", lambda: now)
    monkeypatch.setattr(replica.renewal, "_run", lambda: None)
    replica.renewal.start()
    replica.rounds()
    assert replica.renewal._update() == RETRY_SECONDS
    now += UPGRADE_SECONDS
    assert replica.renewal._update() == CHECK_SECONDS
