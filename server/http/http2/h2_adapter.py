"""The h2 and hpack libraries as one server connection uses them, with what they do not bound themselves."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import h2.config
import h2.connection
import h2.settings
import hpack
from h2.errors import ErrorCodes
from h2.exceptions import DenialOfServiceError, ProtocolError

from server.http.limits import Limits

#: Bytes of request bodies that a client may send before we open the connection's window again; half of it is
#: given back at a time.
CONNECTION_WINDOW = 16 * 1024 * 1024
FIRST_WINDOW, LARGEST_WINDOW = 65_535, 2**31 - 1
#: How many ended streams h2 remembers, for frames of them that are still on their way.
REMEMBERED_STREAMS = 1_024
#: How many header blocks of a connection are looked up instead of decoded.
KNOWN_BLOCKS = 16
#: RFC 7541 section 4.2: an encoder whose table shrank and grew since the last block sends two.
TABLE_SIZE_UPDATES = 2
#: The first bytes of a change of the table's size.
_TABLE_SIZE_UPDATE = frozenset(bytes([first]) for first in range(0x20, 0x40))


class UnlimitedH2Connection(h2.connection.H2Connection):
    """h2's connection, without its limit of open streams.

    h2 would end the connection for one request too many; `Http2Session` refuses only that request.
    """

    MAX_CLOSED_STREAMS = REMEMBERED_STREAMS

    @property
    def open_inbound_streams(self) -> int:
        if len(self.streams) > REMEMBERED_STREAMS:
            self._open_streams(1)  # makes h2 forget the streams that have ended
        return 0


def build_connection(limits: Limits) -> UnlimitedH2Connection:
    """A server's connection that has sent its settings.

    h2 does not validate headers: `headers` does, so that a fault in them ends one stream and not the
    connection.
    """
    connection = UnlimitedH2Connection(
        h2.config.H2Configuration(
            client_side=False,
            header_encoding=None,
            validate_inbound_headers=False,
            normalize_inbound_headers=False,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
    )
    connection.local_settings = h2.settings.Settings(
        client=False,
        initial_values={
            h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: limits.concurrent_streams,
            h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: min(limits.body_bytes + 1, LARGEST_WINDOW),
            h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: limits.header_bytes,
        },
    )
    connection.encoder = HeaderEncoder()
    connection.decoder = HeaderDecoder(
        fields=limits.header_lines + len(":msap"), max_header_list_size=limits.header_bytes
    )
    connection.initiate_connection()
    connection.increment_flow_control_window(CONNECTION_WINDOW - FIRST_WINDOW)
    return connection


class HeaderEncoder(hpack.Encoder):
    """Encodes the headers of responses without a dynamic table: a field has the same bytes in every block.

    The first block says that the table has no room (RFC 7541 section 4.2). That holds whatever size the
    client allows later.
    """

    def __init__(self) -> None:
        super().__init__()
        self.header_table.maxsize = 0
        self.table_size_changes.append(0)

    @property
    def header_table_size(self) -> int:
        return 0

    @header_table_size.setter
    def header_table_size(self, value: int) -> None:
        """The client allows a table of this size; we use none."""

    def encode(self, headers: Iterable[Any], huffman: bool = True) -> bytes:  # noqa: FBT001, FBT002, RUF100 - hpack's signature
        block = b"".join([_encode_field(name, value, huffman) for name, value in headers])
        if self.header_table.resized:
            self.header_table.resized = False
            return self._encode_table_size_change() + block
        return block


@lru_cache(maxsize=1024)
def _encode_field(name: bytes, value: bytes, huffman: bool) -> bytes:
    return _fields.add((name, value), sensitive=False, huffman=huffman)


_fields = HeaderEncoder()


class UnreadableHeaders(ProtocolError):
    """The header block is not HPACK, so the connection cannot go on: h2 sends a GOAWAY with this code."""

    error_code = ErrorCodes.COMPRESSION_ERROR


class HeaderDecoder(hpack.Decoder):
    """Decodes header blocks of a bounded number of fields and bytes. Its errors end the connection.

    A client whose requests have the same headers sends the same block again: indices of fields in the table.
    Such a block is looked up, until another one may have changed the table.
    """

    def __init__(self, *, fields: int, max_header_list_size: int) -> None:
        super().__init__(max_header_list_size)
        self._fields = fields
        self._known_blocks: dict[tuple[bytes, bool], list[Any]] = {}

    def decode(self, data: bytes, raw: bool = False) -> Any:  # noqa: FBT001, FBT002, RUF100 - hpack's signature
        known = self._known_blocks.get((data, raw))
        if known is not None:
            return known.copy()
        headers = self._decode(data, raw)
        if not has_only_indices(data) or len(self._known_blocks) >= KNOWN_BLOCKS:
            self._known_blocks.clear()
        else:
            self._known_blocks[data, raw] = headers.copy()
        return headers

    def _decode(self, data: bytes, raw: bool) -> list[Any]:
        try:
            self._check_size(data)
            return list(super().decode(data, raw))
        except hpack.OversizedHeaderListError as exc:
            raise DenialOfServiceError(str(exc)) from exc
        except ProtocolError:
            raise
        except Exception as exc:  # hpack lets some of Python's own errors through
            raise UnreadableHeaders(f"headers that cannot be read: {exc}") from exc

    def _check_size(self, data: bytes) -> None:
        """A block has at most as many fields as bytes, so most blocks need not be counted."""
        if len(data) > self.max_header_list_size:
            raise DenialOfServiceError(f"the head of a request may have {self.max_header_list_size} bytes")
        if len(data) <= self._fields and data[:1] not in _TABLE_SIZE_UPDATE:
            return
        fields, updates = count_fields(data)
        if fields > self._fields or updates > TABLE_SIZE_UPDATES:
            raise DenialOfServiceError(f"the head of a request may have {self._fields} lines")


def has_only_indices(block: bytes) -> bool:
    """Whether each byte of the block is the index of a field: decoding it does not change the table."""
    return bool(block) and min(block) > 0x80 and max(block) < 0xFF


def count_fields(block: bytes) -> tuple[int, int]:
    """The number of fields and of table size updates in a header block, which is not decoded.

    Raises IndexError if the block ends too soon.
    """
    at, fields, updates = 0, 0, 0
    while at < len(block):
        first = block[at]
        if first & 0x80:
            _, at = _integer(block, at, bits=7)
            fields += 1
        elif first & 0xE0 == 0x20:
            _, at = _integer(block, at, bits=5)
            updates += 1
        else:
            name, at = _integer(block, at, bits=6 if first & 0x40 else 4)
            for _ in range(1 if name else 2):
                size, at = _integer(block, at, bits=7)
                at += size
            fields += 1
    return fields, updates


def _integer(block: bytes, at: int, *, bits: int) -> tuple[int, int]:
    """The integer at `at` (RFC 7541 section 5.1), and the position after it."""
    most = (1 << bits) - 1
    value = block[at] & most
    at += 1
    if value < most:
        return value, at
    shift = 0
    while True:
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
        if shift > 28:
            raise IndexError("an integer that is too long")
