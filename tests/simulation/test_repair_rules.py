"""The rules about repairs are checked: a bad event is refused for its reason, a good one is not."""

import pytest

from tests.simulation import checker, repair_rules
from tests.simulation import history as seen
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.placement.zones.gate import RULE, Permission

LEDGER = LedgerId(7)
A = BookieId("bk-a")


def moved(**facts: int) -> seen.Moved:
    usual = {"held_ms": 0, "lacking": 0, "zones_before": 2, "zones_after": 3, "there_ms": 0}
    return seen.Moved(ledger=LEDGER, bookies=(A,), **{**usual, **facts})


def copied(held_ms: int = 0, failing_ms: int = 0, carriers: int = 2) -> seen.Copied:
    return seen.Copied(
        ledger=LEDGER,
        bookie=A,
        zones=("b",),
        size_bytes=100,
        held_ms=held_ms,
        failing_ms=failing_ms,
        carriers=carriers,
    )


def permitted(after: Permission, by: str, failing_ms: int, held_ms: int = 0) -> seen.Permitted:
    before = Permission.HELD
    return seen.Permitted(
        zone="b", before=before, after=after, by=by, failing_ms=failing_ms, held_ms=held_ms
    )


_LATE_MS = repair_rules.HELD_IS_KNOWN_MS + 1


BAD_REPAIRS: list[tuple[seen.Event, str]] = [
    (moved(held_ms=_LATE_MS), "I20"),
    (moved(lacking=1), "I8"),
    (moved(zones_before=3, zones_after=2), "I19"),
    (moved(zones_before=3, there_ms=_LATE_MS), "presence"),
    (copied(held_ms=_LATE_MS), "I20"),
    (copied(failing_ms=repair_rules.FAILING_IS_KNOWN_MS + 1), "I20"),
    (permitted(Permission.OPEN, "zone watch", _LATE_MS), "gate"),
    (permitted(Permission.RELEASED, RULE, 0, held_ms=100), "gate"),
    (seen.Waited(what="repair", who=A, for_ms=100_000), "I21"),
    (seen.Mended(ledger=LEDGER, lacking=((A, 2),)), "whole"),
    (seen.Mended(ledger=LEDGER, lacking=(), in_limbo=(A,)), "whole"),
]


@pytest.mark.parametrize(("event", "rule"), BAD_REPAIRS)
def test_a_repair_that_breaks_a_promise_is_reported(event: seen.Event, rule: str) -> None:
    assert [violation.rule for violation in checker.check([event])] == [rule]


@pytest.mark.parametrize(
    "event",
    [
        moved(held_ms=_LATE_MS - 1),
        copied(held_ms=_LATE_MS, carriers=1),
        permitted(Permission.OPEN, "zone watch", 0),
        permitted(Permission.RELEASED, "a person", _LATE_MS),
        seen.Waited(what="repair", who=A, for_ms=1_000),
        seen.Mended(ledger=LEDGER, lacking=()),
    ],
)
def test_a_repair_that_keeps_its_promises_is_not_reported(event: seen.Event) -> None:
    assert checker.check([event]) == []
