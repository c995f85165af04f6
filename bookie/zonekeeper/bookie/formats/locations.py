"""A location: a segment and an offset in it as one number, as ``extents`` stores it. Pure.

::

    62          61 .. 32                               31 .. 0
    | arrival? | generation, or the sorted number     | offset in the segment |

Neither a generation nor a sorted segment's number is ever used twice. So a location names the same
bytes for ever, or bytes that no longer exist.
"""

from typing import Final, NewType

#: A segment, as the upper bits of its locations.
SegmentKey = NewType("SegmentKey", int)

OFFSET_BITS: Final = 32
SEGMENT_BYTES_MAX: Final = 1 << OFFSET_BITS
NUMBER_END: Final = 1 << 30
_ARRIVAL: Final = NUMBER_END


def arrival_key(generation: int) -> SegmentKey:
    """Give the key of an arrival segment."""
    assert 0 < generation < NUMBER_END, generation
    return SegmentKey(_ARRIVAL | generation)


def sorted_key(number: int) -> SegmentKey:
    """Give the key of a sorted segment."""
    assert 0 < number < NUMBER_END, number
    return SegmentKey(number)


def location(key: SegmentKey, offset: int) -> int:
    """Give the location of an offset in a segment."""
    assert 0 <= offset < SEGMENT_BYTES_MAX, offset
    return key << OFFSET_BITS | offset


def key_of(at: int) -> SegmentKey:
    """Give the segment of a location."""
    return SegmentKey(at >> OFFSET_BITS)


def offset_of(at: int) -> int:
    """Give the offset of a location in its segment."""
    return at & (SEGMENT_BYTES_MAX - 1)


def arrival_generation(at: int) -> int | None:
    """Give the generation of a location in an arrival segment; None: it is in a sorted segment."""
    key = at >> OFFSET_BITS
    return key ^ _ARRIVAL if key & _ARRIVAL else None


def sorted_number(at: int) -> int | None:
    """Give the number of a location's sorted segment; None: it is in an arrival segment."""
    key = at >> OFFSET_BITS
    return None if key & _ARRIVAL else key
