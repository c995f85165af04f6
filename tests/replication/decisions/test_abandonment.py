"""Which ledgers are abandoned, look by look."""

from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.replication.decisions.abandonment import GAP_MS, Abandonment

MINUTE = 60_000
AFTER = 3 * MINUTE


def due(known: Abandonment, after_ms: int = AFTER) -> list[int]:
    return [ledger_id for ledger_id, _ in known.due(after_ms)]


def with_ledgers(**ledgers: tuple[int, ...]) -> Abandonment:
    known = Abandonment()
    for name, ids in ledgers.items():
        for ledger_id in ids:
            known.add(LedgerId(ledger_id), name)
    return known


def look(known: Abandonment, *missing: str, until_ms: int, from_ms: int = 0) -> None:
    """Look each minute, the last time at ``until_ms``."""
    for now_ms in range(from_ms, until_ms + 1, MINUTE):
        known.looked(frozenset(missing), now_ms)


def test_a_ledger_is_due_when_its_writer_was_missing_for_the_time_and_not_before() -> None:
    known = with_ledgers(gone=(1, 2), there=(3,))
    assert due(known) == []
    look(known, "gone", until_ms=2 * MINUTE)
    assert due(known) == []
    look(known, "gone", from_ms=3 * MINUTE, until_ms=3 * MINUTE)
    assert due(known) == [1, 2]


def test_a_writer_that_was_seen_once_begins_anew() -> None:
    known = with_ledgers(gone=(1,))
    look(known, "gone", until_ms=2 * MINUTE)
    look(known, from_ms=3 * MINUTE, until_ms=3 * MINUTE)
    look(known, "gone", from_ms=4 * MINUTE, until_ms=6 * MINUTE)
    assert due(known) == []
    look(known, "gone", from_ms=7 * MINUTE, until_ms=7 * MINUTE)
    assert due(known) == [1]


def test_time_without_a_look_does_not_count() -> None:
    known = with_ledgers(gone=(1,))
    known.looked(frozenset({"gone"}), 0)
    known.looked(frozenset({"gone"}), GAP_MS)
    assert due(known) == [1]
    known = with_ledgers(gone=(1,))
    known.looked(frozenset({"gone"}), 0)
    known.looked(frozenset({"gone"}), GAP_MS + 1)
    assert due(known) == []


def test_a_ledger_rests_if_two_looks_in_a_row_find_the_same_end() -> None:
    known = with_ledgers(gone=(1,))
    look(known, "gone", until_ms=AFTER)
    assert [known.rests(LedgerId(1), EntryId(end)) for end in (5, 6, 6)] == [False, False, True]


def test_an_end_that_was_seen_before_the_writer_was_there_again_is_forgotten() -> None:
    known = with_ledgers(gone=(1,))
    look(known, "gone", until_ms=AFTER)
    assert not known.rests(LedgerId(1), EntryId(5))
    known.looked(frozenset(), 4 * MINUTE)
    look(known, "gone", from_ms=5 * MINUTE, until_ms=8 * MINUTE)
    assert not known.rests(LedgerId(1), EntryId(5))


def test_what_is_dropped_is_not_looked_for_any_more() -> None:
    known = with_ledgers(gone=(1, 2))
    look(known, "gone", until_ms=AFTER)
    known.drop(LedgerId(1), "gone")
    assert (due(known), set(known.presences)) == ([2], {"gone"})
    known.drop(LedgerId(2), "gone")
    assert (due(known), set(known.presences)) == ([], set())


def test_a_new_reading_keeps_the_times_and_the_ends_and_not_the_ledgers() -> None:
    known = with_ledgers(gone=(1, 2))
    look(known, "gone", until_ms=2 * MINUTE)
    assert not known.rests(LedgerId(2), EntryId(5))
    known = known.anew()
    known.add(LedgerId(2), "gone")
    look(known, "gone", from_ms=3 * MINUTE, until_ms=3 * MINUTE)
    assert due(known) == [2]
    assert known.rests(LedgerId(2), EntryId(5))
