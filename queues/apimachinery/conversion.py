"""Converts values that were read from JSON or YAML into structs.

msgspec builds the decoder of a type at the first use of the type. If several threads use a type for the first
time at once, that can crash the process (seen with msgspec 0.22: SIGSEGV in `json_decode_struct_map_inner`).
So decoders are built at import: every `msgspec.json.Decoder` and every `Converter` is made at the top level
of a module, and nothing is decoded otherwise (`tests/server/test_decoders.py`).
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")


class Converter(Generic[T]):
    """`msgspec.convert` to one type, whose decoder is built now. Make it at the top level of a module."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        msgspec.json.Decoder(kind)

    def __call__(self, value: object) -> T:
        """Raises `msgspec.ValidationError`, and `UnicodeEncodeError` for half of a pair of surrogates."""
        converted: T = msgspec.convert(value, self._kind)
        return converted
