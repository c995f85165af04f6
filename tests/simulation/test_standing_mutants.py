"""Bugs of processes that go on by what was so a moment ago, each in the tests that show it.

Beside them stand bugs that the simulator finds only in its long lane.

A test passes with the real code where it stands, and fails here, while its bug is planted.
"""

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Final

import pytest

from tests.bookie.life import test_life
from tests.client.sessions import test_newcomers, test_owner
from tests.client.writing import test_deferred_sync
from tests.replication.repair import (
    test_repair_copies,
    test_repair_overtaken,
    test_swaps_on_their_way,
)
from tests.simulation.campaign import BUGS
from tests.simulation.standing_mutants import STANDING_MUTANTS
from tests.simulation.test_directed_mutants import fails_with
from tests.support import virtual_time

pytestmark = pytest.mark.simulation


def _alone(test: Callable[..., Coroutine[None, None, None]], *given: object) -> None:
    """Play a test that has no world; with the bug, what it waits for never comes."""
    try:
        virtual_time.run(test(*given))
    except TimeoutError as late:
        raise AssertionError(f"{test.__name__}: it goes on") from late


#: By the number of a bug: the tests that it fails.
SHOWN_BY: Final[dict[int, Sequence[Callable[[], None]]]] = {
    35: [test_newcomers.test_s127_a_newcomer_that_lost_its_disk_counts_no_more],
    36: [
        partial(test_repair_copies.test_replies_that_are_cut_short_hide_no_hole, which="all"),
    ],
    38: [test_owner.test_newcomers_that_go_while_a_change_is_tried_leave_it_unknown],
    46: [
        test_deferred_sync.test_s141_a_force_that_reaches_the_next_start_of_a_bookie_makes_nothing_durable
    ],
    47: [
        partial(
            _alone, test_life.test_a_bookie_that_lost_its_registration_to_a_later_start_ends, []
        ),
        partial(
            _alone,
            test_life.test_a_bookie_that_was_away_while_a_later_start_came_and_went_ends,
        ),
    ],
    48: [
        partial(
            test_swaps_on_their_way.test_s118_a_hold_that_overtakes_the_swap_stops_it,
            held=held,
            late=True,
        )
        for held in ("of the copy that leaves", "of the whole cluster")
    ],
    49: [
        partial(
            test_repair_overtaken.test_s142_a_bookie_that_was_looked_at_and_comes_back_in_limbo_stays_marked,
            others_are_left=others_are_left,
        )
        for others_are_left in (False, True)
    ],
    50: [test_owner.test_s140_a_ledger_is_not_closed_over_an_older_ensemble],
    51: [
        test_newcomers.test_s127_a_newcomer_that_starts_while_the_closing_is_on_its_way_counts_no_more
    ],
}
_PLAYED: Final = [(number, played) for number, tests in SHOWN_BY.items() for played in tests]


def name_of(played: Callable[[], None]) -> str:
    """Give the name of the test that is played."""
    if isinstance(played, partial):
        return name_of(played.args[0] if played.func is _alone else played.func)
    return played.__name__


@pytest.mark.parametrize(("number", "played"), _PLAYED)
def test_a_test_fails_by_the_bug_that_it_is_about(number: int, played: Callable[[], None]) -> None:
    played()
    assert fails_with(BUGS[number].patches(), played)


def test_each_bug_has_a_test_that_shows_it() -> None:
    assert STANDING_MUTANTS.keys() <= SHOWN_BY.keys()
