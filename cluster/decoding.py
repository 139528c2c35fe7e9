"""Decodes bytes from outside into structs, or refuses them.

`decode_body` raises an error that names the place and the fault. Its wording is from msgspec's
`ValidationError`, whose "at `$.a.b`" is turned into `a.b`. `queues.apimachinery.lenient` reads what can be
read of an object.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from cluster.exceptions import Unreadable

T = TypeVar("T")

_PLACE = re.compile(r"^(?P<fault>.*?)(?: - at `(?:key in )?\$\.?(?P<place>[^`]*)`)?$", re.DOTALL)


def decode_body(data: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode the bytes into a struct. Raises `Unreadable` for any invalid bytes."""
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as exc:
        raise Unreadable(_placed(str(exc))) from exc
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise Unreadable(f"the body is not JSON: {exc}") from exc
    except RecursionError as exc:
        raise Unreadable("the body is nested too deeply") from exc


def _placed(message: str) -> str:
    match = _PLACE.match(message)
    if match is None or not match["place"]:
        return message
    return f"{match['place']}: {match['fault']}"
