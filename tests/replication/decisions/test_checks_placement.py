"""The placement check: a ledger is as good as its worst finished fragment."""

import dataclasses
import random

import pytest

from tests.replication.decisions.test_what_if import RULES, ledger
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.placement.base.ids import BookieId, EntryId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Bookie, Registration, Topology
from zonekeeper.placement.ensembles import adhere, fewest
from zonekeeper.placement.ensembles.adherence import Level
from zonekeeper.replication.decisions.checks_placement import Finding, PlacementCheck


def topology(*absent_zones: str, per_zone: int = 3) -> Topology:
    return Topology(
        Bookie(
            id=BookieId(f"{zone}-{number}"),
            location=Location(ZoneName(zone), UpgradeDomain(f"ud-{number}")),
            registration=Registration.ABSENT if zone in absent_zones else Registration.WRITABLE,
        )
        for zone in "abc"
        for number in range(per_zone)
    )


def judged(metadata: LedgerMetadata, bookies: Topology | None = None) -> Finding | None:
    return PlacementCheck(bookies or topology(), RULES, random.Random(1)).judge(metadata)


def two_fragments(*ensembles: str, closed: bool) -> LedgerMetadata:
    whole = ledger("a-0", "b-0", "c-0", closed=closed)
    fragments = tuple(
        Fragment(EntryId(5 * at), tuple(map(BookieId, ensemble.split())))
        for at, ensemble in enumerate(ensembles)
    )
    return LedgerMetadata(
        ensemble_size=3,
        write_quorum=3,
        ack_quorum=2,
        fragments=fragments,
        digest=whole.digest,
        password=b"",
        state=whole.state,
        last_entry=whole.last_entry,
        custom=whole.custom,
    )


def test_strict_needs_nothing() -> None:
    found = judged(ledger("a-0", "b-0", "c-0"))
    assert found == Finding(level=Level.STRICT, can_be_bettered=False)


def test_soft_can_be_bettered_once_the_zone_is_back_and_not_before() -> None:
    soft = ledger("a-0", "b-0", "a-1")
    assert judged(soft) == Finding(level=Level.SOFT, can_be_bettered=True)
    assert judged(soft, topology("c")) == Finding(level=Level.SOFT, can_be_bettered=False)


def test_where_not_every_way_was_tried_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adhere, "ANEW_STEPS_MAX", 0)
    monkeypatch.setattr(fewest, "FIRST_STEPS_MAX", 0)
    monkeypatch.setattr(fewest, "CHANGE_STEPS_MAX", 0)
    wide = ("a-0", "b-0", "a-1", "b-1", "a-2", "b-2")
    fragment = Fragment(EntryId(0), tuple(map(BookieId, wide)))
    one = dataclasses.replace(ledger(*wide[:3]), ensemble_size=6, fragments=(fragment,))
    assert judged(one) == Finding(level=Level.SOFT, can_be_bettered=False, undecided=True)
    sure = Finding(level=Level.SOFT, can_be_bettered=False)
    assert judged(one, topology("c")) == sure, "there is no zone to go to"


def test_the_worst_finished_fragment_counts() -> None:
    both = two_fragments("a-0 b-0 c-0", "a-0 a-1 a-2", closed=True)
    assert judged(both) == Finding(level=Level.FAIL, can_be_bettered=True)


def test_what_may_still_grow_is_left_to_its_writer() -> None:
    growing = two_fragments("a-0 b-0 c-0", "a-0 a-1 a-2", closed=False)
    assert judged(growing) == Finding(level=Level.STRICT, can_be_bettered=False)
    assert judged(ledger("a-0", "a-1", "a-2", closed=False)) is None


def test_what_holds_no_entry_is_left_out() -> None:
    assert judged(ledger("a-0", "a-1", "a-2", last=-1)) is None


def test_an_unknown_member_is_a_loss_and_no_reason_to_move() -> None:
    found = judged(ledger("a-9", "b-0", "c-0"))
    assert found == Finding(level=Level.FAIL, can_be_bettered=False)


def test_what_was_worked_out_for_some_places_holds_for_all_bookies_there() -> None:
    check = PlacementCheck(topology(per_zone=3), RULES, random.Random(1))
    for names in (("a-0", "b-0", "a-1"), ("a-0", "b-0", "a-1")):
        found = check.judge(ledger(*names))
        assert found == Finding(level=Level.SOFT, can_be_bettered=True)
    assert len(check._known) == 1


def test_members_at_one_place_differ_if_only_one_of_them_may_join_elsewhere() -> None:
    stays, leaves = BookieId("c-0"), BookieId("c-9")
    here = Location(ZoneName("c"), UpgradeDomain("ud-0"))
    bookies = topology().updated(
        put=[Bookie(id=leaves, location=here, draining=True)],
        remove=[BookieId("c-1"), BookieId("c-2")],
    )
    check = PlacementCheck(bookies, RULES, random.Random(1))

    def with_member(bookie: BookieId) -> Finding | None:
        names = ("a-0", "b-0", bookie, "a-1", "b-1", "b-2")
        fragment = Fragment(EntryId(0), tuple(map(BookieId, names)))
        return check.judge(
            dataclasses.replace(ledger(*names[:3]), ensemble_size=6, fragments=(fragment,))
        )

    assert with_member(stays) == Finding(level=Level.SOFT, can_be_bettered=False)
    assert with_member(leaves) == Finding(level=Level.SOFT, can_be_bettered=True)
