"""What a replicator logs: sums of its work, and each obstacle of a ledger once."""

import logging

import pytest

from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.replication.decisions.copy_plan import Cause
from zonekeeper.replication.repair import repair_lines
from zonekeeper.replication.repair.repair_lines import (
    TOLD_EVERY_S,
    ObstacleLines,
    RepairProgress,
)
from zonekeeper.replication.repair.repair_metrics import RepairMetrics, RepairTrouble, Route

SEVEN = LedgerId(7)


def test_work_is_told_as_sums_once_a_minute_and_at_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    metrics = RepairMetrics()
    progress = RepairProgress(metrics)
    progress.look(0.0)
    metrics.under_way_now = 4
    for second in range(150):
        metrics.ledgers_repaired += 10
        metrics.bytes_moved[Route("b", "a", Cause.LOST)] += 1_000
        progress.look(float(second))
    metrics.under_way_now = 0
    metrics.waiting_now[RepairTrouble.HELD] = 3
    progress.look(150.0)
    progress.look(151.0)
    assert caplog.messages == [
        "repaired 610 ledgers, 61000 bytes copied, in 60.0 s; 0 wait",
        "repaired 600 ledgers, 60000 bytes copied, in 60.0 s; 0 wait",
        "repaired 290 ledgers, 29000 bytes copied, in 30.0 s; 3 wait",
    ]
    assert TOLD_EVERY_S == 60.0
    assert caplog.records[-1].__dict__["ledgers"] == 290


def test_an_obstacle_is_told_when_it_is_met_first_and_again_after_the_ledger_was_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = ObstacleLines()
    silent = (RepairTrouble.NO_SOURCE, "ledger 7: no copy")
    for _ in range(3):
        lines.met(SEVEN, [silent])
    lines.met(SEVEN, [silent, (RepairTrouble.NO_TARGET, "ledger 7: no place")])
    lines.met(SEVEN, ())
    lines.met(SEVEN, [silent])
    assert [one.partition(": ")[2] for one in caplog.messages] == [
        "ledger 7: no copy",
        "ledger 7: no place",
        "ledger 7: no copy",
    ]
    assert {record.__dict__["ledger"] for record in caplog.records} == {7}


def test_what_was_told_is_remembered_of_so_many_ledgers_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(repair_lines, "LEDGERS_MAX", 2)
    lines = ObstacleLines()
    for number in range(5):
        lines.met(LedgerId(number), [(RepairTrouble.NO_SOURCE, f"ledger {number}")])
    assert len(lines._told) <= 2
    assert len(caplog.messages) == 5
