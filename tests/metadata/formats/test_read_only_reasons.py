"""What a bookie publishes of being read-only: read as written, unknown where it makes no sense."""

import pytest

from zonekeeper.metadata.formats import service_info
from zonekeeper.metadata.formats.service_info import (
    REASON_CHARS_MAX,
    REASONS_MAX,
    WALL_MS_MAX,
    PublishedRoom,
    ReadOnlyReason,
    ServiceInfo,
)

FULL = ReadOnlyReason(reason="the device of --data is full: 96 % used, ü", since_ms=7)
TOLD = ReadOnlyReason(reason="by a person's order", by_person=True)


def said(text: str) -> tuple[ReadOnlyReason, ...]:
    return ServiceInfo(endpoints=(), properties={"readOnly": text}).read_only


def test_reasons_are_read_as_they_were_published_beside_the_room() -> None:
    room = PublishedRoom(free_bytes=1, total_bytes=2)
    info = ServiceInfo(endpoints=()).with_read_only([FULL, TOLD]).with_room(room)
    back = service_info.parse(service_info.render(info))
    assert (back.read_only, back.room) == ((FULL, TOLD), room)
    assert back.with_read_only(()).properties == {"room": str(room)}


def test_a_bookie_that_says_nothing_has_no_reasons() -> None:
    assert ServiceInfo(endpoints=()).read_only == ()


@pytest.mark.parametrize(
    "text",
    ["", "v1", "v1 ", "v2 [{}]", "v1 {}", "v1 7", "v1 [1, null, {}]", "v1 " + "[" * 100_000],
)
def test_what_makes_no_sense_is_no_reason(text: str) -> None:
    assert said(text) == ()


@pytest.mark.parametrize("since", ["-1", "true", '"7"', "1e3", str(WALL_MS_MAX + 1), "9" * 5_000])
def test_a_time_that_is_none_is_unknown(since: str) -> None:
    found = said(f'v1 [{{"reason": "x", "sinceMs": {since}}}]')
    assert found in ((), (ReadOnlyReason(reason="x"),))


def test_what_is_published_is_bounded() -> None:
    many = [ReadOnlyReason(reason="x" * 10_000)] * 100
    info = ServiceInfo(endpoints=()).with_read_only(many)
    assert info.read_only == (ReadOnlyReason(reason="x" * REASON_CHARS_MAX),) * REASONS_MAX
