"""Every small world of candidates that see the same: which one opens a log, which gives it back."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations, product
from typing import Final

import pytest

from zonekeeper.log.standby import candidacy
from zonekeeper.log.standby.candidacy import (
    Contender,
    GiveBack,
    HeldTurn,
    HoldOn,
    OpenLog,
    SeenWriter,
    StandbyScene,
    StandbyStep,
    WaitForTurn,
    Wish,
    YieldLog,
)
from zonekeeper.placement.base.ids import ZoneName

A, B, C = ZoneName("a"), ZoneName("b"), ZoneName("c")
ZONES: Final = (A, B)
#: Two of the first zone, one of the second, one of a zone that is not in the list.
NAMES: Final = {"a1": A, "a2": A, "b1": B, "c1": C}
STRANGER: Final = "stranger"
NEW: Final = SeenWriter(epoch=0, candidacy="", is_closed=True, last_ledger=None)


def contender(name: str, since: int, zones: tuple[ZoneName, ...] = ZONES) -> Contender:
    return Contender(candidacy=name, zone=NAMES[name], zones=zones, since=since)


def standing() -> Iterator[tuple[Contender, ...]]:
    """Give every set of candidates, in every order in which they may have come."""
    for size in range(len(NAMES) + 1):
        for order in permutations(NAMES, size):
            yield tuple(contender(name, since) for since, name in enumerate(order))


def written_by(name: str, *, closed: bool = False) -> SeenWriter:
    return SeenWriter(epoch=3, candidacy=name, is_closed=closed, last_ledger=17)


def scene(
    mine: str,
    contenders: tuple[Contender, ...],
    writer: SeenWriter | None,
    wish: Wish | None = None,
) -> StandbyScene:
    return StandbyScene(mine=mine, in_touch=True, contenders=contenders, writer=writer, wish=wish)


def writers() -> Iterator[SeenWriter]:
    yield NEW
    for name, closed in product([*NAMES, STRANGER, ""], (False, True)):
        yield written_by(name, closed=closed)


def wishes() -> Iterator[Wish | None]:
    yield None
    for giver, taker in product(NAMES, NAMES):
        yield Wish(giver=giver, taker=taker)


def test_one_candidate_opens_a_log_that_nobody_writes_and_none_another_one() -> None:
    """All see the same: then exactly one opens, if any stands."""
    worlds = 0
    for contenders, writer, wish in product(standing(), writers(), wishes()):
        names = {one.candidacy for one in contenders}
        opens = {
            one
            for one in NAMES
            if candidacy.next_step(scene(one, contenders, writer, wish)) == OpenLog()
        }
        worlds += 1
        if not writer.is_closed and writer.candidacy in names:
            assert opens == {writer.candidacy}, "it does not write, or its opening failed half-way"
        else:
            expected = candidacy.first_of(contenders, wish)
            assert opens == ({expected} if expected is not None else set())
            assert (expected is None) == (not contenders)
    assert worlds > 10_000


def test_the_order_is_that_of_zones_and_then_of_coming() -> None:
    for contenders in standing():
        ordered = candidacy.in_order(contenders)
        keys = [
            (ZONES.index(one.zone) if one.zone in ZONES else len(ZONES), one.since)
            for one in ordered
        ]
        assert keys == sorted(keys)
        assert sorted(one.candidacy for one in ordered) == sorted(
            one.candidacy for one in contenders
        )


def test_the_list_of_the_candidate_that_stands_longest_counts_for_all() -> None:
    """So candidates with different lists do not take the log from each other in turn."""
    old, new = contender("b1", 1, (B, A)), contender("a1", 2, (A, B))
    assert candidacy.zones_of([old, new]) == candidacy.zones_of([new, old]) == (B, A)
    assert [one.candidacy for one in candidacy.in_order([new, old])] == ["b1", "a1"]
    first, second = contender("a1", 1, (B, A)), contender("b1", 2, (A, B))
    assert [one.candidacy for one in candidacy.in_order([first, second])] == ["b1", "a1"]
    assert candidacy.first_of([first, second], None) == "b1"
    assert candidacy.zones_of([]) == ()
    alone = candidacy.in_order([new])
    assert [one.candidacy for one in alone] == ["a1"]


def held(contenders: tuple[Contender, ...], mine: str = "b1", **how: object) -> StandbyScene:
    fields = {"epoch": 3, **how}
    return replace(
        scene(mine, contenders, written_by(mine)),
        held=HeldTurn(**fields),  # type: ignore[arg-type]  # each test gives fields of it
    )


BOTH: Final = (contender("b1", 1), contender("a1", 2))


@pytest.mark.parametrize("in_touch", [True, False])
@pytest.mark.parametrize("contenders", [None, (), BOTH])
def test_a_writer_yields_to_a_later_claim_only(
    contenders: tuple[Contender, ...] | None, in_touch: bool
) -> None:
    """Whatever it sees of candidates and its session; a record from before its claim is old."""
    for epoch in (1, 2, 3, 4, 9):
        writer = replace(written_by("a1"), epoch=epoch)
        step = candidacy.next_step(
            replace(held(()), contenders=contenders, in_touch=in_touch, writer=writer)
        )
        assert isinstance(step, YieldLog) == (epoch > 3)
        assert not isinstance(step, WaitForTurn | OpenLog)


def test_a_writer_gives_back_at_the_rotation_behind_the_coming_of_an_earlier_zone() -> None:
    step = candidacy.next_step(held(BOTH))
    assert step == HoldOn(17)
    due = held(BOTH, due_ledger=17)
    assert candidacy.next_step(due) == HoldOn(17)
    assert due.writer is not None
    rotated = replace(due, writer=replace(due.writer, last_ledger=21))
    assert candidacy.next_step(rotated) == GiveBack()
    gone = replace(rotated, contenders=BOTH[:1])
    assert candidacy.next_step(gone) == HoldOn(), "it is not due any more"
    old = replace(due, writer=replace(due.writer, epoch=2, last_ledger=21))
    assert candidacy.next_step(old) == HoldOn(17), "the record of before its claim"
    unknown = replace(due, writer=None)
    assert candidacy.next_step(unknown) == HoldOn(17)


def test_candidates_of_its_own_or_a_later_zone_get_nothing_back() -> None:
    for contenders in standing():
        names = {one.candidacy for one in contenders}
        for mine in names & {"a1", "a2"}:
            assert candidacy.next_step(held(contenders, mine)) == HoldOn()
        if "b1" in names and not names & {"a1", "a2"}:
            assert candidacy.next_step(held(contenders)) == HoldOn()


def test_a_writer_that_does_not_stand_or_is_cut_off_goes_on() -> None:
    due = held(BOTH, due_ledger=12)
    assert candidacy.next_step(due) == GiveBack()
    assert candidacy.next_step(replace(due, in_touch=False)) == HoldOn(12)
    assert candidacy.next_step(replace(due, contenders=BOTH[1:])) == HoldOn(12)
    assert candidacy.next_step(replace(due, contenders=None)) == HoldOn(12)


def test_a_candidate_that_does_not_stand_or_is_cut_off_opens_nothing() -> None:
    free = scene("a1", BOTH, NEW)
    assert candidacy.next_step(free) == OpenLog()
    assert candidacy.next_step(replace(free, in_touch=False)) == WaitForTurn()
    assert candidacy.next_step(replace(free, contenders=BOTH[:1])) == WaitForTurn()
    assert candidacy.next_step(replace(free, contenders=None)) == WaitForTurn()
    assert candidacy.next_step(replace(free, writer=None)) == WaitForTurn()


def test_a_wish_is_followed_by_its_giver_while_its_taker_stands() -> None:
    for contenders, wish in product(standing(), wishes()):
        names = {one.candidacy for one in contenders}
        for mine in names:
            step = candidacy.next_step(replace(held(contenders, mine), wish=wish))
            asked = wish is not None and wish.giver == mine and wish.taker in names
            assert (step == GiveBack()) == asked, (mine, contenders, wish)


def test_after_a_handover_those_that_were_passed_over_get_nothing_back() -> None:
    passed = held(BOTH, passed=frozenset({"a1"}), due_ledger=12)
    assert candidacy.next_step(passed) == HoldOn()
    another = replace(passed, contenders=(*BOTH, contender("a2", 3)))
    assert candidacy.next_step(another) == GiveBack()
    wished = replace(held(BOTH, due_ledger=12), wish=Wish(giver="a1", taker="b1"))
    assert candidacy.next_step(wished) == HoldOn(), "while the handover to it lasts"


# ── from any world to rest ──


@dataclass
class World:
    """Candidates of one log that all see the truth; each step of one is done at once."""

    contenders: tuple[Contender, ...]
    writer: SeenWriter
    wish: Wish | None
    holds: dict[str, HeldTurn]
    opened: int = 0

    def step_of(self, name: str) -> StandbyStep:
        seen = scene(name, self.contenders, self.writer, self.wish)
        return candidacy.next_step(replace(seen, held=self.holds.get(name)))

    def play(self, name: str) -> bool:
        """Let one candidate do its step; False: that changed nothing."""
        match self.step_of(name):
            case OpenLog():
                self.opened += 1
                last = (self.writer.last_ledger or 0) + 1
                epoch = self.writer.epoch + 1
                passed = frozenset[str]()
                if self.wish is not None and self.wish.taker == name:
                    passed = frozenset({one.candidacy for one in self.contenders} - {name})
                self.writer = SeenWriter(
                    epoch=epoch, candidacy=name, is_closed=False, last_ledger=last
                )
                self.holds[name] = HeldTurn(epoch=epoch, passed=passed)
                return True
            case GiveBack():
                self.writer = replace(self.writer, is_closed=True)
                del self.holds[name]
                return True
            case YieldLog():
                del self.holds[name]
                return True
            case HoldOn(ledger):
                self.holds[name] = replace(self.holds[name], due_ledger=ledger)
        return False

    def rest(self, order: tuple[str, ...]) -> None:
        for _ in range(20):
            moved = [self.play(name) for name in order]
            if not any(moved):
                return
        raise AssertionError(f"they take the log from each other: {self}")

    def rotate(self) -> None:
        last = self.writer.last_ledger or 0
        self.writer = replace(self.writer, last_ledger=last + 1)


def test_all_worlds_come_to_rest_with_one_writer() -> None:
    """Behind a takeover and a rotation the first in order writes, in whatever order they move."""
    for alike, wish, differ in product(
        standing(), (None, Wish(giver="a1", taker="b1")), (False, True)
    ):
        contenders = tuple(
            replace(one, zones=(B, A)) if differ and one.since % 2 else one for one in alike
        )
        names = tuple(one.candidacy for one in contenders)
        for writer, order in product(writers(), (names, names[::-1])):
            holder = writer.candidacy if not writer.is_closed else ""
            holds = {holder: HeldTurn(epoch=writer.epoch)} if holder in names else {}
            world = World(contenders, writer, wish, holds)
            world.rest(order)
            assert len(world.holds) == bool(names), world
            for _ in range(2):
                world.rotate()
                world.rest(order)
            first = candidacy.first_of(contenders, wish)
            zones = {one.candidacy: one.zone for one in contenders}
            for one in world.holds:
                assert first is not None
                assert one == first or zones[one] == zones[first] or wish is not None
            assert world.opened <= 2
            world.wish = None
            for _ in range(2):
                world.rotate()
                world.rest(order)
            assert world.opened <= 3
