"""Quantities: read as Kubernetes reads them, held exactly, printed as Kubernetes prints them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.apimachinery.quantities import (
    MAX_AMOUNT,
    MAX_LENGTH,
    Amount,
    BadQuantity,
    format_quantity,
    parse_quantity,
    sum_amounts,
)
from tests.support.cases import each_case

NANO = Fraction(1, 10**9)
#: Every amount that Kubernetes can hold.
AMOUNTS = st.integers(-MAX_AMOUNT * 10**9, MAX_AMOUNT * 10**9).map(lambda nanos: nanos * NANO)


@each_case(
    ("written", "amount"),
    [
        ("0", 0),
        ("2", 2),
        ("+2", 2),
        ("-2", -2),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("1500m", Fraction(3, 2)),
        ("0.1", Fraction(1, 10)),
        ("100n", Fraction(1, 10**7)),
        ("250u", Fraction(1, 4000)),
        ("1k", 1000),
        ("1Ki", 1024),
        ("1.5Gi", 3 * 2**29),
        ("2E", 2 * 10**18),
        ("2E2", 200),
        ("1e-3", Fraction(1, 1000)),
        ("12e+6", 12_000_000),
        (7, 7),
        (-7, -7),
        (0.1, Fraction(1, 10)),
        (1e-07, Fraction(1, 10**7)),
        ("9223372036854775807", MAX_AMOUNT),
    ],
)
def test_a_quantity_is_what_kubernetes_says_it_is(written: str | float, amount: Amount) -> None:
    """Signs, parts, the three kinds of unit, and numbers that JSON did not quote."""
    assert parse_quantity(written) == amount


@pytest.mark.parametrize(
    ("written", "amount"), [("0.1n", NANO), ("1.1n", 2 * NANO), ("-0.1n", -NANO), ("1e-80", NANO)]
)
def test_what_is_finer_than_a_billionth_is_rounded_away_from_zero(written: str, amount: Amount) -> None:
    """As Kubernetes does, so that something never becomes nothing."""
    assert parse_quantity(written) == amount


@each_case(
    "written",
    [
        "",
        " ",
        ".",
        "m",
        "1 Gi",
        "1e",
        "1gi",
        "1K",
        "1Gi\n",
        "\x001",
        "1\u2028",
        "0x10",
        "1_000",
        "\u0661",
        "--1",
        "1.2.3",
        "NaN",
        "Infinity",
        float("nan"),
        float("inf"),
        True,
        "1e999999999999",
        "1e95",
        1e300,
        "9223372036854775808",
        MAX_AMOUNT + 1,
        "9" * MAX_LENGTH + "9",
        "0" * 1_000_000,
    ],
)
def test_what_is_no_quantity_is_refused_with_a_line_to_read(written: str | float) -> None:
    """The refusal is short and printable, whatever was written, and says how to write it."""
    with pytest.raises(BadQuantity) as caught:
        parse_quantity(written)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200
    assert str(caught.value).endswith('write a number with a unit, such as "500m", "2" or "4Gi"')


def test_amounts_beyond_kubernetes_limit_are_refused() -> None:
    """JSON has more than numbers and texts, and numbers of any length."""
    unreadable: tuple[Any, ...] = (None, [], {"cpu": 1}, -(10**5000))
    for written in unreadable:
        with pytest.raises(BadQuantity):
            parse_quantity(written)


@each_case(
    ("amount", "resource", "printed"),
    [
        (0, "cpu", "0"),
        (2, "cpu", "2"),
        (Fraction(3, 2), "cpu", "1500m"),
        (Fraction(1, 10**4), "cpu", "100u"),
        (Fraction(-1, 2), "cpu", "-500m"),
        (3000, "cpu", "3k"),
        (110, "pods", "110"),
        (4 * 2**30, "memory", "4Gi"),
        (3 * 2**29, "memory", "1536Mi"),
        (1500, "memory", "1500"),
        (512, "memory", "512"),
        (Fraction(4097, 2), "memory", "2049"),
        (2**30, "hugepages-2Mi", "1Gi"),
        (2**30, "requests.memory", "1Gi"),
        (2**30, "example.com/memory", "1073741824"),
        (8, "nvidia.com/gpu", "8"),
        (10**9, "nvidia.com/gpu", "1G"),
    ],
)
def test_an_amount_is_printed_in_the_units_of_its_resource(
    amount: Amount, resource: str, printed: str
) -> None:
    """Bytes in binary units where that is exact, everything else in decimal ones."""
    assert format_quantity(amount, resource) == printed


@given(AMOUNTS)
def test_what_is_printed_reads_as_the_same_amount(amount: Fraction) -> None:
    """Nothing is lost on the way out and in again."""
    assert parse_quantity(format_quantity(amount, "cpu")) == amount


@given(st.integers(-MAX_AMOUNT, MAX_AMOUNT))
def test_bytes_are_printed_and_read_as_the_same_number(amount: int) -> None:
    """Binary units are only used where they divide."""
    assert parse_quantity(format_quantity(amount, "memory")) == amount


@given(st.lists(AMOUNTS))
def test_a_total_is_exact_and_whole_where_it_can_be(amounts: list[Fraction]) -> None:
    """No float is anywhere between."""
    found = sum_amounts(amounts)
    assert found == sum(amounts, start=Fraction(0))
    assert isinstance(found, int) == (Fraction(found).denominator == 1)


@given(st.text(max_size=80) | st.from_regex(r"[+-]?[0-9.]{0,6}([eE][+-]?[0-9]{1,5}|[KMGTPEi]{0,3}|[num])"))
def test_whatever_is_written_is_an_amount_or_refused(written: str) -> None:
    """Nothing else is ever raised, and what is taken is within bounds."""
    try:
        amount = parse_quantity(written)
    except BadQuantity:
        return
    assert -MAX_AMOUNT <= amount <= MAX_AMOUNT
    assert parse_quantity(format_quantity(amount, "cpu")) == amount
