"""CRC32C is the standard one, and computed by the processor."""

from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.wire.formats import checksums


def test_the_check_value_of_the_standard() -> None:
    assert checksums.value(b"123456789") == 0xE3069283


@given(st.binary(), st.binary())
def test_a_sum_can_be_taken_in_two_steps(start: bytes, rest: bytes) -> None:
    assert checksums.extend(checksums.value(start), rest) == checksums.value(start + rest)


def test_the_fast_one_is_installed() -> None:
    assert checksums.IMPLEMENTATION == "c"
