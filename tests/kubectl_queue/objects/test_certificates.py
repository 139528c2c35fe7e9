"""The end of a certificate, read by hand, is the one that `cryptography` reads."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime, timedelta

import pytest

from certs.authority import create, expires
from kubectl_queue.objects.certificates import expiries
from tests.support.plugin.harness import NOW


def pem(content: bytes) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{b64encode(content).decode()}\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize("made", [NOW, datetime(2049, 6, 1, tzinfo=UTC)], ids=["UTCTime", "GeneralizedTime"])
def test_each_certificate_of_a_bundle_has_its_end(made: datetime) -> None:
    authority = create(name="a", now=made)
    leaf = authority.serving(dns=["localhost"], now=made)
    both = (authority.certificate + leaf.certificate).decode()
    assert expiries(both) == (expires(authority.certificate), expires(leaf.certificate))
    assert expiries(both)[0] == made + timedelta(days=3650)


def test_what_is_no_certificate_has_no_end() -> None:
    whole = create(name="a", now=NOW).certificate.decode()
    assert expiries(whole[: len(whole) // 2]) == ()
    for content in (
        b"",
        b"\x30",
        b"\x30\x84",
        b"\x30\x03\x30\x01",
        b"\x30\x82\xff\xff" + b"x" * 40,
        bytes(64),
    ):
        assert expiries(pem(content) + whole) == expiries(whole)
    assert expiries("-----BEGIN CERTIFICATE-----\n%%%\n-----END CERTIFICATE-----") == ()
