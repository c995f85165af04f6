"""The ledgers of a lost record are found, in order; what was dropped is not; nothing is guessed."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.log.base.errors import LogDamaged
from zonekeeper.log.formats.openings import ChainedOpening, Predecessor
from zonekeeper.log.keeping import lost_records
from zonekeeper.log.keeping.lost_records import FoundLedger
from zonekeeper.placement.base.ids import EntryId, LedgerId

#: The last entry of each ledger of these tests.
LAST = 9


def found(
    ledger_id: int, before: int | None, *, epoch: int = 1, ended: int = LAST, last: int = LAST
) -> FoundLedger:
    """Give a ledger that continues another one, which by its opening ends at ``ended``."""
    predecessor = None
    if before is not None:
        predecessor = Predecessor(ledger=LedgerId(before), last_entry=EntryId(ended))
    opening = ChainedOpening(
        log_id=bytes(16), epoch=epoch, name="a", sequence=ledger_id, before=predecessor
    )
    return FoundLedger(id=LedgerId(ledger_id), last_entry=EntryId(last), opening=opening)


def chain(*ledgers: FoundLedger, absent: tuple[int, ...] = ()) -> list[int]:
    return [one.id for one in lost_records.chain(ledgers, [LedgerId(one) for one in absent])]


def test_without_a_ledger_the_log_has_none() -> None:
    assert chain() == []


def test_ledgers_follow_each_other_over_claims() -> None:
    assert chain(found(9, 5, epoch=3), found(2, None), found(5, 2, epoch=2)) == [2, 5, 9]


def test_a_ledger_that_does_not_continue_was_dropped_with_all_behind_it() -> None:
    dropped = found(7, 5, ended=LAST + 1)
    assert chain(found(2, None), found(5, 2), dropped, found(8, 7)) == [2, 5]
    assert chain(found(2, None), found(5, 2), dropped, found(8, 7), found(9, 5)) == [2, 5, 9]


def test_what_continues_an_empty_ledger_was_dropped() -> None:
    """The predecessor is there, and has no entry: so it is not among the found, nor absent."""
    assert chain(found(2, None), found(8, 7), found(9, 2)) == [2, 9]


def test_of_two_that_continue_one_the_later_counts() -> None:
    assert chain(found(2, None), found(5, 2), found(7, 2)) == [2, 7]
    assert chain(found(2, None), found(5, 2, epoch=2), found(7, 2, epoch=3)) == [2, 7]
    assert chain(found(2, None), found(5, None), found(7, 5)) == [5, 7]


def test_a_later_epoch_counts_more_than_a_higher_id() -> None:
    assert chain(found(2, None), found(9, 2, epoch=2), found(5, 2, epoch=3)) == [2, 5]
    assert chain(found(2, None, epoch=4), found(9, 2, epoch=2)) == [2], "an epoch never falls"


def test_what_was_trimmed_is_where_the_log_begins() -> None:
    assert chain(found(5, 2), found(7, 5), absent=(2,)) == [5, 7]


def test_a_ledger_that_is_gone_in_the_middle_is_no_gap_and_no_guess() -> None:
    with pytest.raises(LogDamaged, match="ledger 5 is gone, and behind it come ledgers 7") as told:
        chain(found(2, None), found(7, 5), found(8, 7), absent=(5,))
    assert "ledgers 2 hang together" in str(told.value)
    assert "nothing was changed" in str(told.value)
    with pytest.raises(LogDamaged, match="cannot be told"):
        chain(found(3, 2), found(7, 5), absent=(2, 5))
    assert chain(found(2, None), absent=(5,)) == [2], "without it, as a person says"


@given(seed=st.integers(0, 10_000))
def test_whatever_was_dropped_on_the_way_the_record_is_found(seed: int) -> None:
    """Play writers that add, end, drop and take over; the openings give back what the record had.

    A trim may have deleted the oldest ledgers.
    """
    chance = random.Random(seed)
    record: list[FoundLedger] = []
    every: list[FoundLedger] = []
    epoch, next_id = 1, 1
    for _ in range(chance.randrange(1, 20)):
        epoch += chance.random() < 0.4
        next_id += chance.randrange(1, 4)
        before = record[-1] if record else None
        ahead = before is not None and chance.random() < 0.3
        ended = LAST if before is None else before.last_entry + ahead
        one = found(
            next_id,
            None if before is None else before.id,
            epoch=epoch,
            ended=ended,
            last=chance.randrange(0, 5),
        )
        every.append(one)
        if ahead:  # it was made ahead, and the one before it ended earlier: both are dropped
            next_id += 1
            every.append(found(next_id, one.id, epoch=epoch, ended=one.last_entry))
        elif chance.random() < 0.8:
            record.append(one)
        else:
            every.pop()  # it was dropped as an empty one: no opening is left of it
    cut = chance.randrange(len(record)) if record and chance.random() < 0.5 else 0
    kept = [one for one in every if not record or one.id >= record[cut].id]
    absent = {one.id for one in record[:cut]}
    chance.shuffle(kept)
    if not record:
        return
    assert list(lost_records.chain(kept, absent)) == record[cut:]
    assert all(one.id < other.id for one, other in pairwise(record[cut:]))
