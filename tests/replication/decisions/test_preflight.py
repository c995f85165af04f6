"""A release counted before it is done: bytes, ledgers, what crosses zones, room, time."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.base.topology import Bookie, Registration, Topology
from zonekeeper.placement.promises.headroom import Room, Usage
from zonekeeper.replication.decisions import preflight
from zonekeeper.replication.decisions.preflight import CopyWork, Preflight, Tally

A, B, C = ZoneName("a"), ZoneName("b"), ZoneName("c")
LOST = frozenset({BookieId("a-0"), BookieId("a-1")})
MIB = 1 << 20


def topology(*away: str) -> Topology:
    gone = away or LOST
    return Topology(
        Bookie(
            id=BookieId(f"{zone}-{number}"),
            location=Location(zone, UpgradeDomain("ud-0")),
            registration=(
                Registration.ABSENT if f"{zone}-{number}" in gone else Registration.WRITABLE
            ),
        )
        for zone in (A, B, C)
        for number in range(2)
    )


def ledger(
    *fragments: tuple[int, str], entries: int | None = 100, length: int = 1000, write: int = 3
) -> LedgerMetadata:
    """Make a ledger from first entries and the bookies of each fragment; open without entries."""
    ensembles = [(first, tuple(map(BookieId, names.split()))) for first, names in fragments]
    return LedgerMetadata(
        ensemble_size=len(ensembles[0][1]),
        write_quorum=write,
        ack_quorum=2,
        fragments=tuple(Fragment(EntryId(first), ensemble) for first, ensemble in ensembles),
        digest=Digest.CRC32C,
        password=b"",
        state=LedgerState.OPEN if entries is None else LedgerState.CLOSED,
        last_entry=EntryId(-1 if entries is None else entries - 1),
        length=0 if entries is None else length,
    )


def counted(*ledgers: LedgerMetadata, lost: frozenset[BookieId] = LOST) -> CopyWork:
    tally = Tally(lost, topology(*lost))
    for one in ledgers:
        tally.add(one)
    return tally.work


def test_a_ledger_that_lost_one_copy_is_copied_once() -> None:
    work = counted(ledger((0, "a-0 b-0 c-0")))
    assert (work.ledgers, work.bytes, work.open_ledgers) == (1, 1000, 0)
    assert work.bytes_by_zone == {A: 1000}


def test_a_ledger_that_lost_nothing_is_not_counted() -> None:
    assert counted(ledger((0, "b-0 b-1 c-0"))).ledgers == 0


def test_only_the_fragments_that_lost_something_count_by_their_share() -> None:
    work = counted(ledger((0, "a-0 b-0 c-0"), (25, "b-1 b-0 c-0"), (75, "a-1 b-0 c-0")))
    assert work.bytes == 250 + 250


def test_with_a_wider_ensemble_a_position_has_its_share_of_the_entries() -> None:
    work = counted(ledger((0, "a-0 b-0 b-1 c-0 c-1"), entries=100, length=1000))
    assert work.bytes == 600


def test_an_open_ledger_is_counted_and_its_bytes_are_not_guessed() -> None:
    work = counted(ledger((0, "a-0 b-0 c-0"), entries=None))
    assert (work.ledgers, work.open_ledgers, work.bytes) == (1, 1, 0)


def test_an_empty_ledger_has_nothing_to_be_copied() -> None:
    assert counted(ledger((0, "a-0 b-0 c-0"), entries=0, length=0)).bytes == 0


def test_entries_without_any_living_copy_are_beyond_repair() -> None:
    gone = frozenset(map(BookieId, ("a-0", "a-1", "b-0")))
    whole = counted(ledger((0, "a-0 a-1 b-0")), lost=gone)
    assert (whole.beyond_repair, whole.bytes) == (1, 0)
    wide = counted(ledger((0, "a-0 a-1 b-0 c-0"), write=2), lost=gone)
    assert wide.beyond_repair == 1, "a write set is gone, though the ensemble is not"
    assert counted(ledger((0, "a-0 b-1 c-0")), lost=gone).beyond_repair == 0


def test_what_crosses_zones_is_the_read_or_the_write_of_half_the_copies() -> None:
    """Copies are left in b and c: a replicator has one near, and writes to b or c alike."""
    work = counted(ledger((0, "a-0 b-0 c-0")))
    assert work.crossing_bytes == Fraction(1000, 2)


@given(
    ensemble=st.integers(1, 7),
    write=st.integers(1, 7),
    first=st.integers(0, 30),
    more=st.integers(0, 30),
    position=st.integers(0, 6),
)
def test_the_share_of_a_position_is_what_its_write_sets_say(
    ensemble: int, write: int, first: int, more: int, position: int
) -> None:
    quorums = Quorums(ensemble=ensemble, write=min(write, ensemble), ack=1)
    place = position % ensemble
    expected = sum(
        place in quorums.write_set(EntryId(entry)) for entry in range(first, first + more)
    )
    assert preflight._held(quorums, place, first, first + more) == expected


# ── room and time ──


def judged(work: CopyWork, usage: dict[ZoneName, Usage], processes: int = 2) -> Preflight:
    return preflight.judge(
        work, LOST, usage, processes=processes, process_bytes_per_second=50 * MIB
    )


def room(capacity: int, used: int) -> Usage:
    return Usage(capacity_bytes=capacity, used_bytes=used)


WORK = counted(ledger((0, "a-0 b-0 c-0"), length=1000 * MIB))


@pytest.mark.parametrize(
    ("usage", "expected", "words"),
    [
        ({B: room(2000 * MIB, 0), C: room(2000 * MIB, 0)}, Room.FITS, None),
        ({B: room(200 * MIB, 0), C: room(2000 * MIB, 0)}, Room.TIGHT, None),
        ({B: room(100 * MIB, 0), C: room(100 * MIB, 0)}, Room.NO, "there is no room: zones b, c"),
        ({B: Usage(capacity_bytes=None, used_bytes=None), C: room(1, 0)}, Room.UNKNOWN, "unknown"),
        ({}, Room.NO, "there is no other zone"),
    ],
)
def test_without_room_or_where_it_is_unknown_it_is_refused(
    usage: dict[ZoneName, Usage], expected: Room, words: str | None
) -> None:
    found = judged(WORK, usage)
    assert found.room is expected
    if words is None:
        assert found.refusal is None
    else:
        assert words in (found.refusal or "")


def test_several_zones_do_not_get_the_same_room_each() -> None:
    work = counted(
        ledger((0, "a-0 b-0 c-0"), length=60 * MIB),
        ledger((0, "a-1 b-1 c-0"), length=60 * MIB),
        lost=frozenset(map(BookieId, ("a-0", "b-1"))),
    )
    assert work.bytes_by_zone == {A: 60 * MIB, B: 60 * MIB}
    enough = {C: room(200 * MIB, 20 * MIB)}
    assert judged(work, enough).room is Room.FITS
    found = judged(work, {C: room(200 * MIB, 100 * MIB)})
    assert [one.room for one in found.headroom] == [Room.NO, Room.FITS, Room.FITS]
    assert found.headroom[0].zone == "a, b"
    assert found.headroom[0].needed_bytes == 120 * MIB
    assert "there is no room: zone c cannot take" in (found.refusal or "")


def test_nothing_lost_needs_no_room() -> None:
    assert judged(counted(), {}).refusal is None


def test_the_time_is_that_of_all_processes_at_the_policys_rate() -> None:
    usage = {B: room(2000 * MIB, 0), C: room(2000 * MIB, 0)}
    assert judged(WORK, usage).duration_ms == 10_000
    assert judged(WORK, usage, processes=0).duration_ms is None


def test_what_was_lost_nobody_knows_where_leaves_the_room_unknown() -> None:
    stranger = BookieId("x-0")
    tally = Tally(frozenset({stranger}), topology())
    tally.add(ledger((0, "x-0 b-0 c-0")))
    assert judged(tally.work, {B: room(2000, 0)}).room is Room.UNKNOWN
