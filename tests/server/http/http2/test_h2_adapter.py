"""Header blocks: ours are read by any decoder, and those of clients are read as hpack reads them."""

from __future__ import annotations

import random

import hpack
import pytest

from server.http.http2.h2_adapter import KNOWN_BLOCKS, HeaderDecoder, HeaderEncoder, has_only_indices
from tests.support.cases import each_case

Fields = list[tuple[bytes, bytes]]
RESPONSE: Fields = [
    (b":status", b"200"),
    (b"date", b"Tue, 01 Jan 2030 00:00:00 GMT"),
    (b"content-type", b"application/json"),
    (b"content-length", b"300"),
    (b"x-own", b"\xff\x00"),
]


def decoder() -> HeaderDecoder:
    return HeaderDecoder(fields=100, max_header_list_size=16_384)


@pytest.mark.parametrize("allowed", [0, 100, 4_096, 65_536])
def test_responses_are_read_whatever_table_the_client_allows(allowed: int) -> None:
    """A decoder that allows less than 4,096 bytes refuses blocks that do not say that they need no more."""
    encoder, client = HeaderEncoder(), hpack.Decoder()
    client.max_allowed_table_size = allowed
    encoder.header_table_size = allowed
    other = [*RESPONSE[:3], (b"content-length", b"301")]
    for fields in (RESPONSE, other, RESPONSE):
        assert list(client.decode(encoder.encode(fields), raw=True)) == fields
    assert len(client.header_table.dynamic_entries) == 0


def test_a_field_has_the_same_bytes_on_every_connection() -> None:
    first, second = HeaderEncoder(), HeaderEncoder()
    blocks = [encoder.encode(RESPONSE) for encoder in (first, second, first)]
    assert blocks[0] == blocks[1] == b"\x20" + blocks[2]


@each_case("seed", range(20))
def test_a_clients_blocks_are_read_as_hpack_reads_them(seed: int) -> None:
    """Also where the same bytes mean other fields, since the table has changed."""
    chance = random.Random(seed)
    client, ours, theirs = hpack.Encoder(), decoder(), hpack.Decoder()
    looked_up = 0
    for _ in range(200):
        if chance.random() < 0.05:
            client.header_table_size = chance.choice([64, 200, 4_096])
        fields = [(b"x", str(chance.randrange(4)).encode()) for _ in range(chance.randrange(1, 3))]
        block = client.encode([(b":method", b"POST"), *fields])
        assert ours.decode(block, raw=True) == list(theirs.decode(block, raw=True))
        looked_up += has_only_indices(block)
    assert looked_up > 20


def test_what_a_caller_does_to_the_fields_is_not_in_the_next_ones() -> None:
    ours, block = decoder(), b"\x82\x87"
    for _ in range(3):
        fields = ours.decode(block, raw=True)
        assert fields == [(b":method", b"GET"), (b":scheme", b"https")]
        fields.clear()


def test_a_bounded_number_of_blocks_is_kept() -> None:
    ours = decoder()
    for number in range(10 * KNOWN_BLOCKS):
        ours.decode(bytes([0x82 + number % 7, 0x82 + number // 7 % 7, 0x82 + number // 49]), raw=True)
        assert len(ours._known_blocks) <= KNOWN_BLOCKS


@each_case(
    ("block", "only"),
    [
        (b"", False),
        (b"\x82", True),
        (b"\x82\xbe", True),
        (b"\x80", False),  # no field has index 0
        (b"\x82\xff\x00", False),  # an index of several bytes
        (b"\x82\x40\x01a\x01b", False),
        (b"\x20\x82", False),
    ],
    ids=str,
)
def test_which_blocks_do_not_change_the_table(block: bytes, only: bool) -> None:
    assert has_only_indices(block) is only
