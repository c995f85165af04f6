"""Bugs of a log's writer and reader, each planted in the real code, and the test that it fails.

A test passes with the real code where it stands, and fails here.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import pytest

from tests.log import planted
from tests.log.api import test_log_cursor, test_log_reader, test_log_writer, test_old_ledger_late
from tests.log.keeping import test_orphans
from tests.metadata.formats import test_log_record
from tests.simulation import log_mutants
from tests.simulation.patching import Patch
from zonekeeper.log.sessions.chain import LedgerChain
from zonekeeper.log.sessions.rotating import Rotation
from zonekeeper.log.sessions.running import RunningLedger
from zonekeeper.placement.base.ids import LedgerId

pytestmark = pytest.mark.simulation


def _ends_are_noted_before_the_old_ledger_is_confirmed() -> Sequence[Patch]:
    original = Rotation._finish

    async def finish(self: Rotation, old: RunningLedger) -> None:
        await self._state.chain.end(old.id, old.tally.end())
        await original(self, old)

    return [(Rotation, "_finish", finish)]


def _dropped_ledgers_stay_in_the_store() -> Sequence[Patch]:
    async def delete(self: LedgerChain, ledger_id: LedgerId) -> None:
        del self, ledger_id

    return [(LedgerChain, "_delete", delete)]


SHOWN_BY: Final[dict[str, tuple[Callable[[], Sequence[Patch]], Callable[[], None]]]] = {
    "only the last ledger is fenced": (
        log_mutants.only_the_last_ledger_is_fenced,
        test_log_writer.test_a_writer_that_dies_with_two_ledgers_without_an_end_loses_nothing,
    ),
    "the record is written blindly": (
        log_mutants.writes_are_blind,
        test_log_writer.test_a_writer_that_lost_the_log_yields_for_good,
    ),
    "openings are not compared": (
        log_mutants.openings_are_not_compared,
        test_old_ledger_late.test_where_the_old_ledger_ends_earlier_the_new_one_is_dropped_and_all_is_sent_again,
    ),
    "acknowledged across the switch": (
        log_mutants.acknowledged_across_the_switch,
        test_old_ledger_late.test_nothing_of_the_new_ledger_is_acknowledged_or_shown_before_all_of_the_old_one,
    ),
    "all is sent again": (
        log_mutants.all_is_sent_again,
        test_log_writer.test_only_what_the_old_ledger_does_not_hold_is_sent_again,
    ),
    "an id before it is readable": (
        log_mutants.an_id_before_it_is_readable,
        test_log_writer.test_flushed_says_that_a_reader_sees_it_at_once,
    ),
    "a fence is a takeover": (
        log_mutants.a_fence_is_a_takeover,
        test_log_writer.test_a_fence_is_not_a_takeover,
    ),
    "ends are noted before the drop": (
        log_mutants.ends_are_noted_before_the_drop,
        test_old_ledger_late.test_no_reader_looks_into_a_ledger_that_is_being_dropped,
    ),
    "the index is lost at a seek": (
        log_mutants.the_index_is_lost_at_a_seek,
        test_log_reader.test_reading_from_each_message_on_gives_the_rest,
    ),
    "a tail skips a ledger": (
        log_mutants.a_tail_skips_a_ledger,
        test_log_reader.test_a_follower_sees_every_message_over_rotations_and_takeovers,
    ),
    "ends are noted before the old ledger is confirmed": (
        _ends_are_noted_before_the_old_ledger_is_confirmed,
        test_old_ledger_late.test_nothing_of_the_new_ledger_is_acknowledged_or_shown_before_all_of_the_old_one,
    ),
    "dropped ledgers stay in the store": (
        _dropped_ledgers_stay_in_the_store,
        test_old_ledger_late.test_where_the_old_ledger_ends_earlier_the_new_one_is_dropped_and_all_is_sent_again,
    ),
    "a lower id is added": (
        log_mutants.lower_ids_are_added,
        partial(test_log_record.test_a_ledger_that_is_not_above_the_last_one_is_never_added, 4),
    ),
    "orphans are collected by age alone": (
        log_mutants.orphans_are_collected_by_age_alone,
        partial(
            test_orphans.test_an_epoch_that_lasts_protects_a_ledger_that_is_not_below_the_first, 10
        ),
    ),
    "a cursor moves under any epoch": (
        log_mutants.cursors_move_under_any_epoch,
        test_log_cursor.test_the_second_to_open_a_cursor_takes_it_over_and_the_first_hears_it,
    ),
    "shown before the old ledger has its end": (
        log_mutants.shown_before_the_old_ledger_has_its_end,
        test_log_writer.test_flushed_says_that_a_reader_sees_it_at_once,
    ),
}


@pytest.mark.parametrize("name", SHOWN_BY)
def test_a_planted_bug_of_logs_fails_its_test(name: str) -> None:
    planted.check_is_seen(*SHOWN_BY[name])
