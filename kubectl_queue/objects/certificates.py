"""When the certificates of a PEM bundle expire, read without a library for X.509.

The plugin has none among its dependencies. What cannot be read has no end.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from datetime import UTC, datetime
from typing import NamedTuple

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
#: Tags of DER (X.690) and the forms of times in it (RFC 5280, 4.1.2.5).
_VERSION, _UTC_TIME, _GENERALIZED_TIME = 0xA0, 0x17, 0x18
_FORMS = {_UTC_TIME: "%y%m%d%H%M%SZ", _GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}
#: Fields of TBSCertificate before `validity`, after its version: serial number, signature, issuer.
_BEFORE_VALIDITY = 3


class _Element(NamedTuple):
    tag: int
    content: bytes
    rest: bytes


def expiries(bundle: str) -> tuple[datetime, ...]:
    """The end of each certificate of the bundle, in its order; those that cannot be read are left out."""
    ends = (_expiry(text) for text in _PEM.findall(bundle))
    return tuple(end for end in ends if end is not None)


def _expiry(text: str) -> datetime | None:
    try:
        certificate = _element(b64decode(text, validate=False)).content
        fields = _element(certificate).content
        first = _element(fields)
        fields = first.rest if first.tag == _VERSION else fields
        for _ in range(_BEFORE_VALIDITY):
            fields = _element(fields).rest
        not_after = _element(_element(_element(fields).content).rest)
        end = datetime.strptime(not_after.content.decode("ascii"), _FORMS[not_after.tag])
    except (binascii.Error, IndexError, KeyError, ValueError):
        return None
    return end.replace(tzinfo=UTC)


def _element(data: bytes) -> _Element:
    """The first element. Raises IndexError where it is cut."""
    tag, length, start = data[0], data[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(data[2:start])
    if len(data) < start + length:
        raise IndexError
    return _Element(tag, data[start : start + length], data[start + length :])
