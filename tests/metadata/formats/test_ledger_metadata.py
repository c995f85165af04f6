"""The life of a ledger: which values there are, and which changes."""

import dataclasses
import itertools

import pytest

from zonekeeper.metadata.formats import ledger_metadata
from zonekeeper.metadata.formats.ledger_metadata import (
    Fragment,
    IllegalChangeError,
    LedgerMetadata,
    LedgerState,
)
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId

A, B, C, D = (BookieId(name) for name in "abcd")

OPEN = LedgerMetadata(
    ensemble_size=3,
    write_quorum=3,
    ack_quorum=2,
    fragments=(Fragment(EntryId(0), (A, B, C)),),
    digest=Digest.CRC32C,
    password=b"",
    create_token=7,
)
RECOVERING = ledger_metadata.taken_for_recovery(OPEN)
CLOSED = ledger_metadata.closed(OPEN, last_entry=EntryId(9), length=100)


def test_a_ledger_is_written_recovered_and_closed() -> None:
    grown = ledger_metadata.ensemble_changed(OPEN, EntryId(5), (A, B, D))
    assert [f.first_entry for f in grown.fragments] == [0, 5]
    assert grown.fragment_of(EntryId(4)).ensemble == (A, B, C)
    assert grown.fragment_of(EntryId(5)).ensemble == (A, B, D)
    taken = ledger_metadata.taken_for_recovery(grown)
    done = ledger_metadata.closed(taken, last_entry=EntryId(4), length=44)
    assert done.is_closed
    assert done.create_token == OPEN.create_token


def test_a_fragment_in_which_nothing_was_confirmed_is_replaced() -> None:
    again = ledger_metadata.ensemble_changed(OPEN, EntryId(0), (A, B, D))
    assert again.fragments == (Fragment(EntryId(0), (A, B, D)),)


def test_a_recovery_is_joined_and_never_undone() -> None:
    assert ledger_metadata.taken_for_recovery(RECOVERING) == RECOVERING
    with pytest.raises(IllegalChangeError, match="IN_RECOVERY does not become OPEN"):
        ledger_metadata.check_update(RECOVERING, OPEN)
    with pytest.raises(IllegalChangeError, match="closed ledger cannot go back"):
        ledger_metadata.taken_for_recovery(CLOSED)


def test_a_fenced_writer_gets_no_new_ensemble() -> None:
    for ledger in (RECOVERING, CLOSED):
        with pytest.raises(IllegalChangeError, match="gets no new ensemble"):
            ledger_metadata.ensemble_changed(ledger, EntryId(5), (A, B, D))


def test_closing_twice_alike_is_fine_and_otherwise_refused() -> None:
    assert ledger_metadata.closed(CLOSED, last_entry=EntryId(9), length=100) == CLOSED
    with pytest.raises(IllegalChangeError, match="never changes"):
        ledger_metadata.closed(CLOSED, last_entry=EntryId(8), length=100)


def test_a_recovery_publishes_its_ensembles_only_when_it_closes() -> None:
    fragments = ledger_metadata.grown(RECOVERING.fragments, Fragment(EntryId(3), (A, B, D)))
    early = dataclasses.replace(RECOVERING, fragments=fragments)
    with pytest.raises(IllegalChangeError, match="only when it closes"):
        ledger_metadata.check_update(RECOVERING, early)
    done = ledger_metadata.closed(RECOVERING, last_entry=EntryId(9), length=90, fragments=fragments)
    assert done.fragments == fragments


def test_a_lost_replica_is_replaced_in_a_closed_ledger() -> None:
    repaired = ledger_metadata.replicas_replaced(CLOSED, EntryId(0), {A: D})
    assert repaired.fragments[0].ensemble == (D, B, C)
    again = ledger_metadata.replicas_replaced(repaired, EntryId(0), {A: D})
    assert again == repaired, "what somebody replaced already is passed over"


def test_a_fragment_that_can_grow_is_not_repaired_under_its_writer() -> None:
    for ledger in (OPEN, RECOVERING):
        with pytest.raises(IllegalChangeError, match="can still grow"):
            ledger_metadata.replicas_replaced(ledger, EntryId(0), {A: D})
    grown = ledger_metadata.ensemble_changed(OPEN, EntryId(5), (A, B, D))
    repaired = ledger_metadata.replicas_replaced(grown, EntryId(0), {C: D})
    assert repaired.fragments[0].ensemble == (A, B, D)


def test_a_replacement_that_stands_in_the_fragment_already_is_refused() -> None:
    with pytest.raises(IllegalChangeError, match="distinct"):
        ledger_metadata.replicas_replaced(CLOSED, EntryId(0), {A: B})


def test_a_fragment_that_is_not_there_is_refused() -> None:
    with pytest.raises(IllegalChangeError, match="no fragment starts at entry 5"):
        ledger_metadata.replicas_replaced(CLOSED, EntryId(5), {A: D})


def test_a_fragment_never_starts_before_the_last_one() -> None:
    grown = ledger_metadata.ensemble_changed(OPEN, EntryId(5), (A, B, D))
    with pytest.raises(IllegalChangeError, match="would start before"):
        ledger_metadata.ensemble_changed(grown, EntryId(4), (A, B, C))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"write_quorum": 4}, "quorums"),
        ({"ack_quorum": 0}, "quorums"),
        ({"fragments": ()}, "no fragment"),
        ({"fragments": (Fragment(EntryId(1), (A, B, C)),)}, "start at entry 0"),
        ({"fragments": (OPEN.fragments[0], OPEN.fragments[0])}, "ascend"),
        ({"fragments": (Fragment(EntryId(0), (A, B)),)}, "3 distinct"),
        ({"fragments": (Fragment(EntryId(0), (A, B, B)),)}, "3 distinct"),
        ({"custom": (("k", b"1"), ("k", b"2"))}, "twice"),
        ({"last_entry": EntryId(3)}, "only a closed ledger"),
        ({"length": 3}, "only a closed ledger"),
        ({"create_token": -1}, "negative"),
        (
            {
                "state": LedgerState.CLOSED,
                "fragments": (OPEN.fragments[0], Fragment(EntryId(5), (A, B, D))),
                "last_entry": EntryId(3),
            },
            "past the end",
        ),
    ],
)
def test_a_value_that_breaks_an_invariant_cannot_be_made(
    change: dict[str, object], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        dataclasses.replace(OPEN, **change)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(
    "name", ["write_quorum", "ack_quorum", "digest", "password", "create_token"]
)
def test_what_a_ledger_was_made_with_never_changes(name: str) -> None:
    other = {
        "write_quorum": 2,
        "ack_quorum": 1,
        "digest": Digest.HMAC,
        "password": b"x",
        "create_token": 8,
    }
    changed = dataclasses.replace(OPEN, **{name: other[name]})  # type: ignore[arg-type]  # fits by name
    with pytest.raises(IllegalChangeError, match=f"{name} of a ledger never changes"):
        ledger_metadata.check_update(OPEN, changed)


def small_world() -> list[LedgerMetadata]:
    """Every ledger of one or two fragments over four bookies, at most three entries long."""
    ensembles = [(A, B, C), (A, B, D), (D, B, C)]
    lists = [(Fragment(EntryId(0), one),) for one in ensembles] + [
        (Fragment(EntryId(0), one), Fragment(EntryId(first), two))
        for one, two in itertools.product(ensembles, repeat=2)
        for first in (1, 2)
    ]
    ends = [(LedgerState.CLOSED, EntryId(last), 10 * (last + 1)) for last in (-1, 0, 1, 2)]
    live = [(state, NO_ENTRY, 0) for state in (LedgerState.OPEN, LedgerState.IN_RECOVERY)]
    found = []
    for fragments, (state, last, length) in itertools.product(lists, ends + live):
        try:
            found.append(
                dataclasses.replace(
                    OPEN, fragments=fragments, state=state, last_entry=last, length=length
                )
            )
        except ValueError:
            continue
    return found


def legal(before: LedgerMetadata, after: LedgerMetadata) -> bool:
    try:
        ledger_metadata.check_update(before, after)
    except IllegalChangeError:
        return False
    return True


def test_no_chain_of_legal_changes_moves_an_end_or_loses_a_fragment() -> None:
    world = small_world()
    for before, after in itertools.product(world, repeat=2):
        if not legal(before, after):
            continue
        assert len(after.fragments) >= len(before.fragments)
        if before.is_closed:
            assert (after.last_entry, after.length) == (before.last_entry, before.length)
            assert len(after.fragments) == len(before.fragments)
        if after.state is LedgerState.OPEN:
            assert before.state is LedgerState.OPEN


def test_legal_changes_of_a_live_ledger_can_be_made_in_two_steps_too() -> None:
    """Open to closed is allowed exactly where open to recovery to closed is."""
    world = small_world()
    opens = [ledger for ledger in world if ledger.state is LedgerState.OPEN]
    ends = [ledger for ledger in world if ledger.is_closed]
    for before, after in itertools.product(opens, ends):
        taken = ledger_metadata.taken_for_recovery(before)
        assert legal(before, after) == legal(taken, after)
