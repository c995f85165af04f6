"""The index: what it says is what the ledgers say, in little memory, with work that is linear."""

import dataclasses
import sys
from collections import defaultdict
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.allocations import peak_below
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.replication.decisions.ledger_index import LedgerIndex

#: What the documentation says of a ledger of one fragment on three bookies.
LEDGER_BYTES = 40
#: An array keeps up to an eighth in reserve, and is copied whole when it grows.
LEDGER_PEAK_BYTES = 90


def bookie(number: int) -> BookieId:
    return BookieId(f"bookie-{number:05d}")


def ledger(ensembles: list[tuple[int, ...]], write: int) -> LedgerMetadata:
    return LedgerMetadata(
        ensemble_size=len(ensembles[0]),
        write_quorum=write,
        ack_quorum=1,
        fragments=tuple(
            Fragment(EntryId(10 * at), tuple(bookie(one) for one in ensemble))
            for at, ensemble in enumerate(ensembles)
        ),
        digest=Digest.CRC32C,
        password=b"",
    )


def spread(number: int, bookies: int) -> LedgerMetadata:
    first = number * 7 % bookies
    return ledger([(first, (first + 1) % bookies, (first + 5) % bookies)], 3)


@st.composite
def _ledgers(draw: st.DrawFn) -> dict[LedgerId, LedgerMetadata]:
    found = {}
    for ledger_id in sorted(draw(st.sets(st.integers(0, 2**63 - 1), max_size=12))):
        size = draw(st.integers(1, 5))
        ensemble = st.lists(st.integers(0, 7), min_size=size, max_size=size, unique=True)
        ensembles = draw(st.lists(ensemble.map(tuple), min_size=1, max_size=4))
        found[LedgerId(ledger_id)] = ledger(ensembles, draw(st.integers(1, size)))
    return found


def built(ledgers: dict[LedgerId, LedgerMetadata]) -> LedgerIndex:
    index = LedgerIndex()
    for ledger_id, metadata in ledgers.items():
        index.add(ledger_id, metadata)
    return index


@given(_ledgers())
def test_it_says_of_each_bookie_what_the_ledgers_say(
    ledgers: dict[LedgerId, LedgerMetadata],
) -> None:
    index = built(ledgers)
    for one in map(bookie, range(9)):
        naming = [ledger_id for ledger_id, each in ledgers.items() if one in each.bookies]
        assert list(index.ledgers_of(one)) == naming
        assert index.count_of(one) == len(naming)
        assert [ledger_id for ledger_id in ledgers if index.names(one, ledger_id)] == naming
    assert index.ledgers == len(ledgers)
    assert index.bookies == {one for each in ledgers.values() for one in each.bookies}


@given(_ledgers(), st.sets(st.integers(0, 8)).map(lambda some: frozenset(map(bookie, some))))
@settings(deadline=None)
def test_the_copies_that_are_left_are_those_of_the_worst_write_set(
    ledgers: dict[LedgerId, LedgerMetadata], missing: frozenset[BookieId]
) -> None:
    expected = []
    for ledger_id, each in ledgers.items():
        quorums = Quorums(ensemble=each.ensemble_size, write=each.write_quorum, ack=1)
        for fragment in each.fragments:
            if missing.isdisjoint(fragment.ensemble):
                continue
            sets = [quorums.write_set(EntryId(at)) for at in range(each.ensemble_size)]
            here = [sum(fragment.ensemble[p] not in missing for p in held) for held in sets]
            expected.append((ledger_id, min(here)))
    assert sorted(built(ledgers).copies_left(missing)) == sorted(expected)


def test_what_has_no_entries_and_gets_none_is_at_no_risk() -> None:
    grows = ledger([(0, 1, 2), (0, 3, 4)], 3)  # from entries 0 and 10
    begun = ledger([(0, 1, 2)], 3)
    index = LedgerIndex()
    index.add(LedgerId(1), grows)
    for number, one, last in ((2, grows, 9), (3, grows, 10), (4, begun, NO_ENTRY)):
        closed = dataclasses.replace(one, state=LedgerState.CLOSED, last_entry=EntryId(last))
        index.add(LedgerId(number), closed)
    missing = frozenset({bookie(0), bookie(3), bookie(4)})
    assert sorted(index.copies_left(missing)) == [(1, 0), (1, 2), (2, 2), (3, 0), (3, 2)]
    assert list(index.ledgers_of(bookie(0))) == [1, 2, 3, 4], (
        "its members are replaced all the same"
    )


def test_ledgers_out_of_order_are_a_mistake() -> None:
    index = LedgerIndex()
    assert index.following == 0
    index.add(LedgerId(5), spread(0, 9))
    assert index.following == 6
    with pytest.raises(AssertionError, match="in order"):
        index.add(LedgerId(5), spread(0, 9))


def test_a_ledger_takes_no_more_than_is_said_however_many_bookies_there_are() -> None:
    many = [spread(number, 900) for number in range(1_000)]
    index = LedgerIndex()
    with peak_below(LEDGER_PEAK_BYTES * 20_000 + 500 * 900):
        for number in range(20_000):
            index.add(LedgerId(number), many[number % 1_000])
    of_bookies = 4 * 900 + 4
    assert index.size_bytes - of_bookies == LEDGER_BYTES * 20_000


def steps_to_index(count: int) -> int:
    """Count the calls that it takes to index ledgers and to ask what is left of them."""
    shapes, steps = [spread(number, 30) for number in range(1_000)], 0

    def count_call(_: FrameType, event: str, __: object) -> None:
        nonlocal steps
        steps += event in ("call", "c_call")

    index = LedgerIndex()
    sys.setprofile(count_call)
    try:
        for number in range(count):
            index.add(LedgerId(number), shapes[number % 1_000])
        fewest = min(left for _, left in index.copies_left(frozenset(map(bookie, (0, 1)))))
    finally:
        sys.setprofile(None)
    assert (fewest, index.ledgers) == (1, count)
    return steps


def test_twice_the_ledgers_are_twice_the_work() -> None:
    assert steps_to_index(20_000) <= 2.01 * steps_to_index(10_000)


@pytest.mark.simulation
def test_200_000_ledgers_are_twice_the_work_of_100_000() -> None:
    assert steps_to_index(200_000) <= 2.01 * steps_to_index(100_000)


@pytest.mark.long
def test_a_million_ledgers_fit_and_are_ten_times_the_work_of_100_000() -> None:
    assert steps_to_index(1_000_000) <= 10.05 * steps_to_index(100_000)
    many = [spread(number, 900) for number in range(1_000)]
    index, by_bookie = LedgerIndex(), defaultdict[BookieId, int](int)
    with peak_below(LEDGER_PEAK_BYTES * 1_000_000):
        for number in range(1_000_000):
            index.add(LedgerId(number), many[number % 1_000])
    for each in many:
        for one in each.bookies:
            by_bookie[one] += 1_000
    assert {one: index.count_of(one) for one in index.bookies} == by_bookie
    sys.stdout.write(f"1,000,000 ledgers on 900 bookies: {index.size_bytes:,} bytes\n")
