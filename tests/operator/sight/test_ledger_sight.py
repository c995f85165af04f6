"""Ledgers are asked before a unit is taken away: which would be at risk, and how many?"""

import dataclasses
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.metadata.formats import placement_stamp
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from zonekeeper.operator.sight.ledger_sight import AtRisk, FragmentKinds
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.holds import Holds
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules
from zonekeeper.placement.promises import absences

BOOKIES = tuple(BookieId(f"log-{zone}-{n}") for zone in "abc" for n in range(3))
PLACES: dict[BookieId, Location | None] = {
    name: Location(ZoneName(name[4]), UpgradeDomain(f"ud-{name[-1]}")) for name in BOOKIES
}
UNIT = Location(ZoneName("a"), UpgradeDomain("ud-0"))


def ledger(
    *ensembles: tuple[str, ...], ack: int, last: int | None = None, write: int | None = None
) -> LedgerMetadata:
    """Give a ledger; each fragment but the first begins ten entries later."""
    fragments = tuple(
        Fragment(EntryId(10 * number), tuple(BookieId(f"log-{name}") for name in names))
        for number, names in enumerate(ensembles)
    )
    return LedgerMetadata(
        ensemble_size=len(ensembles[0]),
        write_quorum=len(ensembles[0]) if write is None else write,
        ack_quorum=ack,
        fragments=fragments,
        digest=Digest.CRC32C,
        password=b"",
        state=LedgerState.OPEN if last is None else LedgerState.CLOSED,
        last_entry=EntryId(-1 if last is None else last),
    )


def asked(*ledgers: LedgerMetadata, away: tuple[str, ...] = ()) -> AtRisk | None:
    kinds = FragmentKinds()
    for number, one in enumerate(ledgers, 1):
        kinds.add(LedgerId(number), one)
    return kinds.at_risk(UNIT, PLACES, [BookieId(f"log-{name}") for name in away])


WELL = ("a-0", "b-0", "c-0")


@pytest.mark.parametrize(
    ("one", "away", "at_risk"),
    [
        (ledger(WELL, ack=2), (), False),
        (ledger(WELL, ack=2), ("b-1",), False),
        (ledger(WELL, ack=2), ("b-0",), True),
        (ledger(("a-1", "b-0", "c-0"), ack=2), ("b-0",), False),
        (ledger(("a-0", "b-0"), ack=1), (), True),
        (ledger(("a-0", "b-0"), ack=1, last=3), (), True),
        (ledger(("a-0", "b-0"), ack=2), (), False),
        # Two copies of an entry are in the unit's way: one there, one away already.
        (ledger(WELL, ("a-1", "b-1", "c-1"), ack=2, last=15), ("b-0",), True),
        (ledger(("a-1", "b-1", "c-1"), WELL, ack=2, last=9), ("b-0",), False),
    ],
)
def test_a_ledger_is_at_risk_if_an_entry_of_it_could_not_be_read_or_it_not_be_recovered(
    one: LedgerMetadata, away: tuple[str, ...], at_risk: bool
) -> None:
    assert asked(one, away=away) == (AtRisk(ledgers=1, first=LedgerId(1)) if at_risk else None)


def test_ledgers_at_risk_are_counted_once_each_and_the_first_is_named() -> None:
    thin = ledger(("a-0", "b-0"), ("a-0", "c-0"), ack=1)
    assert asked(ledger(WELL, ack=2), thin, thin) == AtRisk(ledgers=2, first=LedgerId(2))


def test_a_ledger_that_cannot_be_read_may_be_at_risk() -> None:
    kinds = FragmentKinds()
    kinds.add_unreadable(LedgerId(9))
    assert kinds.at_risk(UNIT, PLACES, ()) == AtRisk(ledgers=1, first=LedgerId(9))


def test_a_bookie_whose_place_is_not_known_may_stand_in_the_unit() -> None:
    kinds = FragmentKinds()
    kinds.add(LedgerId(1), ledger(("a-1", "b-0"), ack=1))
    assert kinds.at_risk(UNIT, PLACES | {BookieId("log-b-0"): None}, ()) is not None
    assert kinds.at_risk(UNIT, PLACES, ()) is None


@given(st.integers(0, 2**32))
def test_together_ledgers_get_the_answers_that_each_gets_alone(seed: int) -> None:
    chance = random.Random(seed)
    ledgers = []
    for _ in range(12):
        size = chance.randint(1, 5)
        write = chance.randint(1, size)
        ensembles = [
            tuple(name.removeprefix("log-") for name in chance.sample(BOOKIES, size))
            for _ in range(chance.randint(1, 3))
        ]
        last = chance.choice([None, 10 * len(ensembles)])
        ledgers.append(ledger(*ensembles, ack=chance.randint(1, write), write=write, last=last))
    away = chance.sample(BOOKIES, 2)
    expected = [LedgerId(n) for n, one in enumerate(ledgers, 1) if _is_at_risk(one, away)]

    found = asked(*ledgers, away=tuple(name.removeprefix("log-") for name in away))

    assert found == (AtRisk(ledgers=len(expected), first=expected[0]) if expected else None)


def _is_at_risk(one: LedgerMetadata, away: list[BookieId]) -> bool:
    quorums = placement_stamp.quorums_of(one)
    for number, fragment in enumerate(one.fragments):
        where = [PLACES[name] for name in fragment.ensemble]
        if UNIT not in where:
            continue
        already = frozenset(at for at, name in enumerate(fragment.ensemble) if name in away)
        absence = absences.of_unit(quorums, where, UNIT, already=already)
        grows = not one.is_closed and number == len(one.fragments) - 1
        if absence.reads is not Holds.YES or (grows and absence.recovery is not Holds.YES):
            return True
    return False


@pytest.mark.parametrize(("last", "at_risk"), [(None, True), (3, False)])
def test_only_a_ledger_that_may_grow_must_be_recoverable(last: int | None, at_risk: bool) -> None:
    # Acknowledgements need two zones: what is in the unit alone was never acknowledged by it.
    places = PLACES | {BookieId("log-a-1"): UNIT}
    quorums = Quorums(ensemble=3, write=3, ack=2, ack_zones=2)
    zones = PlacementRules(zones=tuple(map(ZoneName, "abc")))
    stamp = ((placement_stamp.KEY, placement_stamp.render(quorums, zones, 1)),)
    kinds = FragmentKinds()
    one = ledger(("a-0", "a-1", "b-0"), ack=2, last=last)
    kinds.add(LedgerId(1), dataclasses.replace(one, custom=stamp))
    assert (kinds.at_risk(UNIT, places, ()) is not None) == at_risk
