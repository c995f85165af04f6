"""What would become of a ledger: each answer by example, and what holds of all of them."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.metadata.formats import placement_stamp
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules
from zonekeeper.replication.decisions import what_if
from zonekeeper.replication.decisions.what_if import Harm, LedgerOutcome

RULES = PlacementRules(zones=(ZoneName("a"), ZoneName("b"), ZoneName("c")))


def ledger(*ensemble: str, write: int = 3, closed: bool = True, last: int = 9) -> LedgerMetadata:
    quorums = Quorums(ensemble=len(ensemble), write=write, ack=2, ack_zones=2)
    return LedgerMetadata(
        ensemble_size=len(ensemble),
        write_quorum=write,
        ack_quorum=2,
        fragments=(Fragment(EntryId(0), tuple(map(BookieId, ensemble))),),
        digest=Digest.CRC32C,
        password=b"",
        state=LedgerState.CLOSED if closed else LedgerState.OPEN,
        last_entry=EntryId(last) if closed else NO_ENTRY,
        custom=((placement_stamp.KEY, placement_stamp.render(quorums, RULES, 1)),),
    )


def zone_of(bookie: BookieId) -> ZoneName | None:
    zone = bookie.partition("-")[0]
    return ZoneName(zone) if zone != "?" else None


def judged(metadata: LedgerMetadata, lost: str = "", *, and_one: bool = False) -> LedgerOutcome:
    return what_if.of_ledger(metadata, zone_of, lambda one: one[0] in lost, and_one=and_one)


def test_one_zone_of_three_leaves_two_copies_and_a_quorum() -> None:
    for closed in (True, False):
        metadata = ledger("a-0", "b-0", "c-0", closed=closed)
        assert judged(metadata, "a") == LedgerOutcome(harm=Harm.NONE, unwritable=False)


def test_a_zone_and_one_more_may_hold_all_that_acknowledged() -> None:
    metadata = ledger("a-0", "b-0", "c-0", closed=False)
    expected = LedgerOutcome(harm=Harm.PERHAPS_UNREADABLE, unwritable=True)
    assert judged(metadata, "a", and_one=True) == expected


def test_two_in_one_zone_are_no_ack_quorum_but_leave_one_copy() -> None:
    assert judged(ledger("a-0", "a-1", "c-0"), "a").harm is Harm.LAST_COPY


def test_all_in_one_zone_is_lost_with_it() -> None:
    assert judged(ledger("a-0", "a-1", "a-2"), "a").harm is Harm.UNREADABLE


def test_who_stands_nowhere_is_taken_to_be_lost() -> None:
    assert judged(ledger("?-0", "b-0", "c-0"), "b").harm is Harm.PERHAPS_UNREADABLE


def test_the_worst_write_set_counts() -> None:
    striped = ledger("a-0", "a-1", "b-0", "b-1", "c-0", "c-1", write=2)
    assert judged(striped, "a").harm is Harm.UNREADABLE


def test_nothing_is_lost_of_what_has_no_entry() -> None:
    assert judged(ledger("a-0", "a-1", "a-2", last=-1), "a").harm is Harm.NONE
    assert not judged(ledger("a-0", "a-1", "a-2"), "a").unwritable, "a closed one is not written"


@given(
    st.lists(st.sampled_from("abc"), min_size=3, max_size=6),
    st.sets(st.sampled_from("abc")),
    st.integers(2, 3),
)
def test_losing_more_never_helps_and_one_more_is_the_worst_of_all_singles(
    zones: list[str], lost: set[str], write: int
) -> None:
    ensemble = [f"{zone}-{at}" for at, zone in enumerate(zones)]
    metadata = ledger(*ensemble, write=write, closed=False)
    alone = judged(metadata, "".join(lost))
    more = judged(metadata, "".join(lost), and_one=True)
    singles = [
        what_if.of_ledger(
            metadata,
            zone_of,
            {one for one in ensemble if one[0] in lost or one == extra}.__contains__,
        )
        for extra in ensemble
        if extra[0] not in lost
    ] or [alone]
    assert more.harm == max(one.harm for one in singles) >= alone.harm
    assert more.unwritable == any(one.unwritable for one in singles) >= alone.unwritable
    for bigger in itertools.combinations("abc", 3):
        assert judged(metadata, "".join(bigger)).harm >= alone.harm
