"""Tombstones name what was collected, for seven days at least, and are bounded."""

from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.bookie.ledgers.tombstones import KEPT_MS, Tombstone, Tombstones
from zonekeeper.placement.base.ids import LedgerId

DAY_MS = 24 * 3_600_000
ONE, TWO = LedgerId(1), LedgerId(2)


def test_a_tombstone_names_one_ledger_and_not_another_one_under_its_id() -> None:
    stones = Tombstones([Tombstone(ONE, 7, 0)])

    assert stones.names(ONE, 7)
    assert not stones.names(ONE, 8)
    assert not stones.names(TWO, 7)


def test_a_token_that_is_not_known_may_be_any_token() -> None:
    assert Tombstones([Tombstone(ONE, 7, 0)]).names(ONE, 0)
    assert Tombstones([Tombstone(ONE, 0, 0)]).names(ONE, 7)


def test_two_ledgers_that_had_the_same_id_have_a_tombstone_each() -> None:
    stones = Tombstones([Tombstone(ONE, 7, 0), Tombstone(ONE, 8, 1)])

    assert stones.names(ONE, 7)
    assert stones.names(ONE, 8)
    assert not stones.names(ONE, 9)
    assert len(stones) == 2


def test_a_tombstone_is_kept_for_seven_days() -> None:
    stones = Tombstones([Tombstone(ONE, 7, 1_000), Tombstone(TWO, 7, 2_000)])

    stones.expire(1_000 + 7 * DAY_MS - 1)
    assert stones.names(ONE, 7)
    stones.expire(1_000 + 7 * DAY_MS)
    assert not stones.names(ONE, 7)
    assert stones.names(TWO, 7)
    assert stones.kept() == (Tombstone(TWO, 7, 2_000),)
    assert stones.dropped == 0


def test_the_same_ledger_collected_again_is_kept_from_then_on() -> None:
    stones = Tombstones([Tombstone(ONE, 7, 0), Tombstone(ONE, 7, 5_000)])

    assert len(stones) == 1
    stones.expire(KEPT_MS)
    assert stones.kept() == (Tombstone(ONE, 7, 5_000),)


def test_beyond_the_limit_the_oldest_goes_early_and_is_counted() -> None:
    stones = Tombstones(most=2)
    for number in range(5):
        stones.add(Tombstone(LedgerId(number), 7, number))

    assert [each.ledger_id for each in stones.kept()] == [3, 4]
    assert (len(stones), stones.dropped) == (2, 3)


@given(
    st.lists(st.builds(Tombstone, st.integers(0, 4), st.integers(0, 2), st.integers(0, 9))),
    st.integers(1, 4),
)
def test_what_is_kept_says_the_same_after_a_restart(added: list[Tombstone], most: int) -> None:
    stones = Tombstones(most=most)
    for each in added:
        stones.add(each)
    again = Tombstones(stones.kept(), most=most)

    assert len(stones) == len(stones.kept()) <= most
    assert again.kept() == stones.kept()
    for ledger_id in range(5):
        for token in range(4):
            assert again.names(LedgerId(ledger_id), token) == stones.names(
                LedgerId(ledger_id), token
            )


def test_a_ledger_that_is_collected_again_and_again_takes_no_more_room() -> None:
    """A stranger may fence an id whenever it was collected."""
    tombstones = Tombstones(most=10)
    for at_ms in range(1, 1_000):
        tombstones.add(Tombstone(LedgerId(at_ms % 3), 0, at_ms))
        assert len(tombstones._order) <= 20
    assert [each.at_ms for each in tombstones.kept()] == [997, 998, 999]
    assert tombstones.dropped == 0
