"""What is to be done for a fragment: which entries, which newcomers, and the swap."""

import dataclasses
import itertools
import random

import pytest

from tests.placement import clusters
from tests.placement.clusters import ids
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.ensembles import adherence
from zonekeeper.placement.ensembles.adherence import Level
from zonekeeper.placement.ensembles.candidates import Avoid, EnsembleRequest
from zonekeeper.placement.ensembles.failures import NotEnoughBookies
from zonekeeper.replication.decisions import copy_plan
from zonekeeper.replication.decisions.copy_plan import (
    Cause,
    Finished,
    LowersPlacementError,
    OvertakenError,
)

THREE_BY_FOUR = clusters.even("abc", 2, 2)
HERE = ids("a-1-0", "b-1-0", "c-1-0")


def ledger(*fragments: tuple[int, tuple[BookieId, ...]], last: int | None = None) -> LedgerMetadata:
    """A ledger of three bookies a fragment; closed where it has a last entry."""
    return LedgerMetadata(
        ensemble_size=3,
        write_quorum=3,
        ack_quorum=2,
        fragments=tuple(Fragment(EntryId(first), ensemble) for first, ensemble in fragments),
        digest=Digest.CRC32C,
        password=b"",
        state=LedgerState.OPEN if last is None else LedgerState.CLOSED,
        last_entry=NO_ENTRY if last is None else EntryId(last),
    )


def replaced(
    request: EnsembleRequest,
    ensemble: tuple[BookieId, ...],
    leaving: dict[int, Cause],
    preferred: tuple[BookieId, ...] = (),
) -> tuple[BookieId, ...]:
    return copy_plan.replacement(request, ensemble, leaving, preferred, random.Random(1))


def level(request: EnsembleRequest, ensemble: tuple[BookieId, ...]) -> Level:
    return adherence.judge(ensemble, request.quorums, request.rules, request.topology).level


# ── which entries ──


@pytest.mark.parametrize(("size", "write"), [(3, 2), (4, 2), (5, 3), (6, 3), (4, 4)], ids=str)
def test_s133_each_change_of_places_leaves_every_entry_with_its_write_quorum(
    size: int, write: int
) -> None:
    """Each new ensemble of the members, and of one bookie more; each is cut off after any copy."""
    quorums = Quorums(ensemble=size, write=write, ack=2)
    everybody = tuple(BookieId(f"b{number}") for number in range(size + 1))
    before = everybody[:size]
    fragment = Fragment(EntryId(7), before)
    part = Finished(fragment=fragment, last=EntryId(7 + 2 * size))
    for after in itertools.permutations(everybody, size):
        joined = {at for at in range(size) if after[at] != before[at]}
        holders = {
            entry: {before[at] for at in quorums.write_set(EntryId(entry))}
            for entry in part.entries
        }
        first = {entry: frozenset(who) for entry, who in holders.items()}
        for owed in copy_plan.owed(quorums, part, after, joined):
            assert owed.positions
            for entry, position in itertools.product(owed.share.wanted, owed.positions):
                assert quorums.holds(position, EntryId(entry))
                assert after[position] not in holders[entry], "nothing is copied twice"
                holders[entry].add(after[position])
        for entry, who in holders.items():
            new = {after[at] for at in quorums.write_set(EntryId(entry))}
            assert len(new) == write, "a write set never names a bookie twice"
            assert who == new | first[entry], "what is there stays, and no more comes than is owed"


def test_members_that_change_places_get_only_what_they_do_not_hold() -> None:
    quorums = Quorums(ensemble=4, write=2, ack=1)
    part = Finished(fragment=Fragment(EntryId(0), ids("a", "b", "c", "d")), last=EntryId(3))
    found = list(copy_plan.owed(quorums, part, ids("b", "a", "c", "d"), {0, 1}))
    # Entry 0 is on a and b: before and after. Entry 1 was on b and c, and 3 on d and a.
    assert [(list(one.share.wanted), one.positions) for one in found] == [([1], (1,)), ([3], (0,))]


def test_the_last_fragment_is_finished_only_where_the_ledger_is_closed() -> None:
    other = ids("a-1-1", "b-1-0", "c-1-0")
    growing = ledger((0, HERE), (10, other))
    assert [part.last for part in copy_plan.finished(growing)] == [9]
    closed = ledger((0, HERE), (10, other), last=14)
    assert [part.last for part in copy_plan.finished(closed)] == [9, 14]


def test_an_empty_last_fragment_is_finished_and_holds_nothing() -> None:
    (part,) = copy_plan.finished(ledger((0, HERE), last=-1))
    quorums = Quorums(ensemble=3, write=3, ack=2)
    assert list(copy_plan.shares(quorums, part, range(3))) == []


@pytest.mark.parametrize(
    ("ensemble", "write"), [(e, w) for e in range(1, 7) for w in range(1, e + 1)]
)
def test_shares_are_exactly_what_the_positions_hold_each_entry_once(
    ensemble: int, write: int
) -> None:
    quorums = Quorums(ensemble=ensemble, write=write, ack=1)
    members = tuple(BookieId(f"bk-{number}") for number in range(ensemble))
    for first, length in itertools.product((0, 1, 5), (0, 1, 2, 7, 13)):
        part = Finished(
            fragment=Fragment(EntryId(first), members), last=EntryId(first + length - 1)
        )
        for count in (1, 2, ensemble):
            for positions in itertools.combinations(range(ensemble), min(count, ensemble)):
                shares = list(copy_plan.shares(quorums, part, positions))
                given = sorted(number for share in shares for number in share.wanted)
                held = [
                    number
                    for number in range(first, first + length)
                    if any(quorums.holds(position, EntryId(number)) for position in positions)
                ]
                assert given == held
                for share in shares:
                    holders = {
                        frozenset(quorums.write_set(EntryId(number))) for number in share.wanted
                    }
                    assert holders == {frozenset(share.holders)}


# ── what is wrong ──


def test_who_is_absent_or_unknown_is_lost_and_who_drains_is_draining() -> None:
    topology = clusters.with_noise(THREE_BY_FOUR)
    assert copy_plan.cause_of(BookieId("absent"), topology) is Cause.LOST
    assert copy_plan.cause_of(BookieId("nobody"), topology) is Cause.LOST
    assert copy_plan.cause_of(BookieId("draining"), topology) is Cause.DRAINING
    assert copy_plan.cause_of(BookieId("read-only"), topology) is None
    assert copy_plan.causes(HERE, ids("c-1-0", "x"), topology) == {2: None}


# ── the newcomers ──


def test_a_lost_copy_may_be_made_anew_where_only_a_lower_level_is_left() -> None:
    topology = clusters.without_zone(THREE_BY_FOUR, "a")
    request = clusters.request(topology, (3, 3))
    after = replaced(request, HERE, {0: Cause.LOST})
    assert level(request, HERE) is Level.STRICT
    assert level(request, after) is Level.SOFT


@pytest.mark.parametrize("cause", [Cause.DRAINING, Cause.RESPREAD])
def test_a_good_copy_stays_where_moving_it_would_lower_the_level(cause: Cause) -> None:
    topology = clusters.cluster({"a": {"1": 1}, "b": {"1": 2}, "c": {"1": 2, "2": 2}})
    with pytest.raises(LowersPlacementError, match="SOFT where it is STRICT"):
        replaced(clusters.request(topology, (3, 3)), HERE, {0: cause})


def test_members_that_break_the_rules_already_do_not_keep_a_copy_lost() -> None:
    topology = THREE_BY_FOUR
    same_unit = ids("a-1-0", "a-1-1", "b-1-0", "b-1-1", "c-1-0", "c-1-1")
    request = clusters.request(topology, (6, 3))
    assert level(request, same_unit) is Level.FAIL
    after = replaced(request, same_unit, {5: Cause.LOST})
    assert after[:5] == same_unit[:5]
    assert after[5] not in same_unit


def test_quorums_that_todays_rules_refuse_do_not_keep_a_copy_lost() -> None:
    request = clusters.request(THREE_BY_FOUR, (2, 2))
    after = replaced(request, ids("a-1-0", "b-1-0"), {0: Cause.LOST})
    assert after[1] == "b-1-0"
    assert after[0] != "a-1-0"


def test_too_few_bookies_are_said_and_not_made_up_for_by_relaxing_the_rules() -> None:
    topology = clusters.cluster({"a": {"1": 1}, "b": {"1": 1}, "c": {"1": 1}})
    gone = clusters.without_zone(topology, "a")
    with pytest.raises(NotEnoughBookies):
        replaced(clusters.request(gone, (3, 3)), HERE, {0: Cause.LOST})


def test_who_holds_the_ledger_already_is_preferred_if_the_level_is_as_good() -> None:
    request = clusters.request(THREE_BY_FOUR, (3, 3))
    for near in ids("a-1-1", "a-2-0", "a-2-1"):
        assert replaced(request, HERE, {0: Cause.LOST}, (near,))[0] == near
    for worse in ids("b-2-0", "c-2-0"):
        assert replaced(request, HERE, {0: Cause.LOST}, (worse,))[0].startswith("a-")


def test_nobody_is_preferred_who_may_not_join() -> None:
    near = BookieId("a-2-0")
    tried = clusters.request(THREE_BY_FOUR, (3, 3), avoid=Avoid(bookies=frozenset({near})))
    suspected = clusters.request(THREE_BY_FOUR, (3, 3), avoid=Avoid(quarantined=frozenset({near})))
    gone = clusters.request(clusters.without_zone(THREE_BY_FOUR, "a"), (3, 3))
    for request in (tried, suspected, gone):
        assert replaced(request, HERE, {0: Cause.LOST}, (near,))[0] != near
    members = replaced(
        clusters.request(THREE_BY_FOUR, (3, 3)), HERE, {0: Cause.LOST}, (HERE[1], near)
    )
    assert members[0] == near


@pytest.mark.parametrize("shape", [(3, 3), (6, 3)])
def test_s95_no_replacement_of_one_lost_member_has_fewer_zones_than_another_one_could(
    shape: tuple[int, int],
) -> None:
    """By brute force: no bookie that could join would have made it better."""
    topology = clusters.even("abc", 2, 3)
    for seed in range(20):
        chance = random.Random(seed)
        names = sorted(bookie.id for bookie in topology)
        ensemble = tuple(chance.sample(names, shape[0]))
        position = chance.randrange(shape[0])
        request = clusters.request(topology, shape)
        after = copy_plan.replacement(request, ensemble, {position: Cause.LOST}, (), chance)
        best = max(
            level(request, (*ensemble[:position], other, *ensemble[position + 1 :]))
            for other in names
            if other not in ensemble
        )
        assert level(request, after) == best


# ── the swap ──

NEW = ids("a-2-0", "b-1-0", "c-1-0")


def test_a_swap_replaces_only_in_its_fragment_and_only_what_left() -> None:
    before = ledger((0, HERE), (10, HERE), last=14)
    # Two fragments of one ensemble do not come to be, but nothing hangs on that here.
    after = copy_plan.swapped(before, before.fragments[0], NEW)
    assert after is not None
    assert [one.ensemble for one in after.fragments] == [NEW, HERE]
    assert (after.last_entry, after.length, after.state) == (14, 0, LedgerState.CLOSED)


def test_a_swap_that_stands_already_writes_nothing() -> None:
    assert copy_plan.swapped(ledger((0, NEW), last=4), Fragment(EntryId(0), HERE), NEW) is None


def test_a_fragment_that_anybody_changed_meanwhile_is_not_swapped() -> None:
    for other in (ids("a-1-0", "b-2-0", "c-1-0"), ids("a-1-1", "b-1-0", "c-1-0")):
        with pytest.raises(OvertakenError, match="from entry 0"):
            copy_plan.swapped(ledger((0, other), last=4), Fragment(EntryId(0), HERE), NEW)
    with pytest.raises(OvertakenError):
        copy_plan.swapped(ledger((0, HERE), last=4), Fragment(EntryId(3), HERE), NEW)


def test_a_ledger_that_was_closed_meanwhile_is_swapped_all_the_same() -> None:
    growing = ledger((0, HERE), (10, HERE))
    closed = dataclasses.replace(growing, state=LedgerState.CLOSED, last_entry=EntryId(12))
    assert copy_plan.swapped(closed, growing.fragments[0], NEW) is not None
