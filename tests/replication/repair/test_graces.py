"""Writers that lost a bookie have a grace, and all of them get their turn."""

import pytest

from zonekeeper.metadata.formats.ledger_metadata import Fragment
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.replication.repair.graces import FORGOTTEN_AFTER_S, Graces

GRACE_MS = 30_000
FRAGMENT = Fragment(EntryId(0), (BookieId("a-0"), BookieId("b-0")))
LATER = Fragment(EntryId(7), (BookieId("a-0"), BookieId("b-1")))


def over(graces: Graces, ledger: int, now_s: float, fragment: Fragment = FRAGMENT) -> bool:
    return graces.over(LedgerId(ledger), fragment, grace_ms=GRACE_MS, now_s=now_s)


def test_a_grace_is_counted_from_the_first_look() -> None:
    graces = Graces()
    assert not over(graces, 1, 5)
    assert not over(graces, 1, 34.9)
    assert over(graces, 1, 35)


def test_another_last_fragment_begins_it_anew() -> None:
    graces = Graces()
    over(graces, 1, 0)
    assert not over(graces, 1, 31, LATER)
    assert over(graces, 1, 61, LATER)


def test_a_ledger_that_was_forgotten_begins_anew() -> None:
    graces = Graces()
    over(graces, 1, 0)
    graces.forget(LedgerId(1))
    assert not over(graces, 1, 31)


@pytest.mark.parametrize("step_s", [0.1, 9, 100])
@pytest.mark.parametrize("fails", [False, True])
def test_all_get_their_turn_however_many_there_are_and_however_slowly_they_are_asked_for(
    *, step_s: float, fails: bool
) -> None:
    graces, waiting, now_s = Graces(most=3), list(range(20)), 0.0
    left = set(waiting)
    for _ in range(200):
        for ledger in waiting:
            now_s += step_s
            if (fails or ledger in left) and over(graces, ledger, now_s):
                left.discard(ledger)
                if not fails:
                    graces.forget(LedgerId(ledger))
        now_s += 2
    assert left == set()


def test_who_is_asked_for_no_more_makes_room_in_the_end() -> None:
    graces = Graces(most=1)
    over(graces, 1, 0)
    assert not over(graces, 2, 10)
    assert not over(graces, 2, FORGOTTEN_AFTER_S)
    assert over(graces, 2, FORGOTTEN_AFTER_S + 30)
