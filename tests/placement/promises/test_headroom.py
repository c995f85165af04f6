"""Is there room for the data of a lost zone?"""

from fractions import Fraction

import pytest

from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.promises import headroom
from zonekeeper.placement.promises.headroom import Headroom, Room, Usage


def judge(
    min_free: Fraction = Fraction(0), **zones: tuple[int | None, int | None]
) -> list[Headroom]:
    usage = {
        ZoneName(zone): Usage(capacity_bytes=capacity, used_bytes=used)
        for zone, (capacity, used) in zones.items()
    }
    return list(headroom.judge(usage, min_free=min_free))


def rooms(min_free: Fraction = Fraction(0), **zones: tuple[int | None, int | None]) -> list[Room]:
    return [answer.room for answer in judge(min_free, **zones)]


def test_a_third_each_fits_while_each_is_at_most_two_thirds_full() -> None:
    assert rooms(a=(90, 60), b=(90, 60), c=(90, 60)) == [Room.FITS] * 3
    assert rooms(a=(90, 61), b=(90, 61), c=(90, 61)) == [Room.NO] * 3


def test_the_reserve_stays_free() -> None:
    zones = {"a": (100, 60), "b": (100, 60), "c": (100, 60)}

    assert rooms(Fraction(1, 10), **zones) == [Room.FITS] * 3
    assert rooms(Fraction(11, 100), **zones) == [Room.NO] * 3


def test_an_even_share_may_be_too_much_for_one_zone() -> None:
    answer = judge(a=(100, 40), b=(100, 90), c=(100, 10))[0]

    assert answer.room is Room.TIGHT
    assert answer.needed_bytes == 40
    assert answer.free_bytes == {"b": 10, "c": 90}
    assert answer.why == "an even share is too much for zone b"


def test_an_odd_byte_is_not_rounded_away() -> None:
    assert rooms(a=(99, 3), b=(99, 98), c=(99, 97))[0] is Room.TIGHT
    assert rooms(a=(99, 3), b=(99, 98), c=(99, 98))[0] is Room.NO


@pytest.mark.parametrize("unknown", [(None, 10), (100, None), (None, None)])
def test_a_zone_that_is_unknown_makes_the_answer_unknown(
    unknown: tuple[int | None, int | None],
) -> None:
    answer = judge(a=(100, 10), b=(100, 10), c=unknown)[0]

    assert answer.room is Room.UNKNOWN
    assert answer.why == "the room in zone c is unknown"


def test_what_an_unknown_zone_holds_is_unknown() -> None:
    *_, answer = judge(a=(100, 10), b=(100, None))

    assert (answer.room, answer.needed_bytes) == (Room.UNKNOWN, None)
    assert answer.why == "what zone b holds is unknown"


def test_a_zone_over_its_reserve_takes_nothing_and_is_owed_nothing() -> None:
    answer = judge(Fraction(1, 2), a=(100, 10), b=(100, 90), c=(100, 0))[0]

    assert answer.free_bytes == {"b": 0, "c": 50}
    assert answer.room is Room.TIGHT


def test_one_zone_has_nowhere_to_go() -> None:
    (answer,) = judge(a=(100, 1))

    assert (answer.room, answer.why) == (Room.NO, "there is no other zone")


def test_an_empty_zone_fits_anywhere() -> None:
    assert rooms(a=(100, 0), b=(100, 100))[0] is Room.FITS


def test_four_answers_are_not_tested_for_truth() -> None:
    with pytest.raises(TypeError, match="four answers"):
        bool(Room.NO)
