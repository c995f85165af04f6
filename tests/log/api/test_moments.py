"""Times as people write them."""

import pytest

from zonekeeper.log.api import moments


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-02", 86_400_000),
        ("1970-01-01T00:00:01.5", 1_500),
        ("1969-12-31", None),
        ("20260101", None),
        ("1970-13-01", None),
    ],
)
def test_a_time_without_an_offset_is_utc(text: str, value: int | None) -> None:
    assert moments.wall_ms(text) == value
