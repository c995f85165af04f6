"""Durations and sizes are read and printed without loss."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.placement.base import units


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0s", 0),
        ("250ms", 250),
        ("60s", 60_000),
        ("5m", 300_000),
        ("6h", 21_600_000),
        ("7d", 604_800_000),
    ],
)
def test_a_duration_is_a_whole_number_and_a_unit(text: str, value: int) -> None:
    assert units.duration_ms(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "60",
        "s",
        "60 s",
        " 60s",
        "60s\n",
        "1.5h",
        "-1s",
        "+1s",
        "1H",
        "1min",
        "\u0661s",
        "1" * 16 + "s",
    ],
)
def test_anything_else_is_no_duration(text: str) -> None:
    assert units.duration_ms(text) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0s"),
        (1, "1ms"),
        (1_500, "1500ms"),
        (60_000, "1m"),
        (90_000, "90s"),
        (86_400_000, "1d"),
        (90_000_000, "25h"),
    ],
)
def test_a_duration_is_printed_in_the_largest_unit_that_divides_it(value: int, text: str) -> None:
    assert units.duration_text(value) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [("64KiB", 1 << 16), ("50MiB", 50 << 20), ("3GiB", 3 << 30), ("2TiB", 2 << 40), ("0KiB", 0)],
)
def test_a_size_is_a_whole_number_and_a_unit(text: str, value: int) -> None:
    assert units.size_bytes(text) == value


@pytest.mark.parametrize(
    "text", ["", "0", "50", "50MB", "50 MiB", "50mib", "1.5GiB", "50M", "-1KiB"]
)
def test_anything_else_is_no_size(text: str) -> None:
    assert units.size_bytes(text) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1 << 10, "1KiB"), (1536 << 10, "1536KiB"), (50 << 20, "50MiB"), (1 << 30, "1GiB")],
)
def test_a_size_is_printed_in_the_largest_unit_that_divides_it(value: int, text: str) -> None:
    assert units.size_text(value) == text


def test_a_size_that_has_no_text_is_not_rounded() -> None:
    with pytest.raises(ValueError, match="1000 is not a whole number of KiB"):
        units.size_text(1_000)


@given(st.integers(0, 10**14))
def test_durations_round_trip(value: int) -> None:
    assert units.duration_ms(units.duration_text(value)) == value


@given(st.integers(1, 10**12))
def test_sizes_round_trip(kib: int) -> None:
    assert units.size_bytes(units.size_text(kib << 10)) == kib << 10
