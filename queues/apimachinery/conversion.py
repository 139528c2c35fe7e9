"""What was read from JSON or YAML already, into structs.

msgspec builds what it needs to know of a type when the type is first used, and keeps it with the type. If
threads use a type for the first time at once, that can crash the process (seen with msgspec 0.22: SIGSEGV
in `json_decode_struct_map_inner`). So it is done at import, by whoever imports: every `msgspec.json.Decoder`
and every `Converter` is made at the top level of a module, and nothing is decoded otherwise
(`tests/server/test_decoders.py`).
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")


class Converter(Generic[T]):
    """`msgspec.convert` to one type, which is built here and now. Make it at the top level of a module."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        msgspec.json.Decoder(kind)

    def __call__(self, value: object) -> T:
        """Raises `msgspec.ValidationError`, and `UnicodeEncodeError` for half of a pair of surrogates."""
        converted: T = msgspec.convert(value, self._kind)
        return converted
