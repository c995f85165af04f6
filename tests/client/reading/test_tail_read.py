"""Which entries a recovery keeps, and where it ends: all small worlds. S19 to S21."""

from itertools import permutations, product

import pytest

from zonekeeper.client.reading.tail_read import TailRead, WindowStanding
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats.entries import Entry

THREE = Quorums(ensemble=3, write=3, ack=2)


def entry(number: int) -> Entry:
    return Entry(LedgerId(7), EntryId(number), EntryId(-1), number + 1, b"x")


def window(quorums: Quorums = THREE, size: int = 4) -> TailRead:
    read = TailRead(quorums=quorums, zones=(None,) * quorums.ensemble, window=range(10, 10 + size))
    read.start()
    return read


def tell(read: TailRead, position: int, *numbers: int) -> None:
    """All that a member has, to the end of the window."""
    read.told(position, [entry(number) for number in numbers], EntryId(read.window.stop))


def verdict(read: TailRead) -> WindowStanding:
    return read.verdict


def kept(read: TailRead) -> list[int]:
    return [found.entry_id for found in read.found]


def test_everybody_is_asked_for_the_whole_window() -> None:
    read = TailRead(quorums=THREE, zones=(None,) * 3, window=range(10, 14))
    assert [(ask.position, ask.wanted) for ask in read.start()] == [
        (position, range(10, 14)) for position in range(3)
    ]


def test_s21_one_copy_is_enough_to_keep_an_entry() -> None:
    read = window()
    tell(read, 1, 10)
    tell(read, 2)
    assert (read.verdict, kept(read)) == (WindowStanding.ENDED, [10])


def test_s20_enough_denials_end_it_though_somebody_is_silent() -> None:
    read = window()
    tell(read, 0)
    assert verdict(read) is WindowStanding.GOING_ON
    read.denied(2)
    assert verdict(read) is WindowStanding.ENDED


def test_s19_failures_are_no_denials() -> None:
    read = window()
    tell(read, 0)
    read.silent(1, TimeoutError())
    read.silent(2, OSError())
    assert verdict(read) is WindowStanding.UNKNOWN


def test_an_entry_behind_a_gap_is_dropped() -> None:
    read = window()
    tell(read, 0, 10, 12)
    tell(read, 1, 10, 12)
    assert (read.verdict, kept(read)) == (WindowStanding.ENDED, [10])


def test_a_full_window_leads_to_the_next() -> None:
    read = window()
    tell(read, 2, 10, 11, 12, 13)
    assert (read.verdict, kept(read)) == (WindowStanding.FULL, [10, 11, 12, 13])


def test_a_member_that_spoke_of_a_part_is_asked_for_the_rest_only_when_it_matters() -> None:
    read = window()
    asks = read.told(0, [entry(10), entry(11)], EntryId(12))
    assert [(ask.position, ask.wanted) for ask in asks] == [(0, range(12, 14))]


def test_a_bad_copy_is_neither_there_nor_denied() -> None:
    read = window()
    read.told(0, [], EntryId(14), {EntryId(10): ValueError("digest")})
    tell(read, 1)
    assert verdict(read) is WindowStanding.GOING_ON
    tell(read, 2, 10)
    assert (read.verdict, kept(read)) == (WindowStanding.ENDED, [10])


def test_what_a_member_holds_outside_its_write_set_is_not_its_business() -> None:
    read = window(Quorums(ensemble=4, write=2, ack=2), size=1)  # entry 10: positions 2 and 3
    tell(read, 0, 10)
    assert verdict(read) is WindowStanding.GOING_ON
    tell(read, 2)
    assert (read.verdict, kept(read)) == (WindowStanding.ENDED, [])


@pytest.mark.parametrize(
    "quorums",
    [THREE, Quorums(ensemble=3, write=3, ack=3), Quorums(ensemble=4, write=3, ack=2)],
    ids=str,
)
def test_all_small_worlds_end_right_whatever_the_order_of_the_answers(quorums: Quorums) -> None:
    """Each member has one of: entry, no entry, silence; for one entry, in every order.

    Acknowledged or ever to be acknowledged: an ack quorum that holds it, or is silent, is possible.
    """
    members = quorums.write_set(EntryId(10))
    for states in product("+-?", repeat=len(members)):
        could_be_acked = sum(state != "-" for state in states) >= quorums.ack
        verdicts = set()
        for order in permutations(range(len(members))):
            read = window(quorums, size=1)
            for index in order:
                if states[index] == "?":
                    read.silent(members[index], TimeoutError())
                else:
                    tell(read, members[index], *([10] if states[index] == "+" else []))
            verdicts.add((read.verdict, tuple(kept(read))))
        for ended, found in verdicts:
            if could_be_acked and "+" in states:
                assert (ended, found) == (WindowStanding.FULL, (10,)), states
            elif could_be_acked:
                assert ended is WindowStanding.UNKNOWN, states
            else:
                assert ended is not WindowStanding.UNKNOWN, states
