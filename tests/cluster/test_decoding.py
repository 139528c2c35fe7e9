"""Bytes into structs, or a refusal that names the place and the fault."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.decoding import decode_body
from cluster.exceptions import Unreadable
from cluster.objects import Pod, QueueObject
from tests.support.cases import each_case
from tests.support.rules.cases import MODEST

PODS = msgspec.json.Decoder(Pod)


@each_case(
    ("body", "message"),
    [
        (b'{"metadata": {"name": 5}}', "metadata.name: Expected `str`, got `int`"),
        (b"{}", "Object missing required field `metadata`"),
        (
            b'{"metadata": {}, "spec": {"containers": [{}, 5]}}',
            "spec.containers[1]: Expected `object`, got `int`",
        ),
        (b'{"metadata": {"labels": {"a": null}}}', "metadata.labels[...]: Expected `str`, got `null`"),
        (b"[]", "Expected `object`, got `array`"),
        (b"", "the body is not JSON: "),
        (b'{"metadata": {"name": "\xff"}}', "the body is not JSON: "),
        (b'{"metadata": ' + b"[" * 100_000, "metadata: Expected `object`, got `array`"),
        (b'{"metadata": {}, "x": ' + b"[" * 1_000_000, "the body is nested too deeply"),
    ],
    ids=range(9),
)
def test_a_refusal_names_the_place_and_the_fault(body: bytes, message: str) -> None:
    with pytest.raises(Unreadable) as raised:
        decode_body(body, PODS)
    assert str(raised.value).startswith(message)


@MODEST
@given(st.binary(max_size=200))
def test_whatever_the_bytes_are_they_are_read_or_unreadable(body: bytes) -> None:
    for wrapped in (body, b'{"metadata":{"name":"' + body + b'"}}', b'{"metadata":{"name":' + body + b"}}"):
        try:
            decode_body(wrapped, PODS)
        except Unreadable as exc:
            assert str(exc)


def test_what_is_not_needed_is_passed_over() -> None:
    body = b'{"metadata": {"name": "a", "managedFields": [1]}, "spec": {"weight": {"odd": 1}}}'
    assert decode_body(body, msgspec.json.Decoder(QueueObject)).metadata.name == "a"


@each_case("version", ["", "x", "-1", "1.5", "\u00b2", "\u0663", "9" * 5000])
def test_a_resource_version_that_is_no_number_orders_nothing(version: str) -> None:
    body = msgspec.json.encode({"metadata": {"resourceVersion": version}})
    assert decode_body(body, PODS).metadata.version in {0, 3}
