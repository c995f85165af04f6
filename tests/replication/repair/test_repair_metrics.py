"""The numbers of repair keep their names and labels, whatever their classes are called."""

from zonekeeper.replication.decisions.copy_plan import Cause
from zonekeeper.replication.repair.repair_metrics import RepairMetrics, RepairTrouble, Route
from zonekeeper.wire.formats import exposition


def test_troubles_and_routes_are_labelled_as_dashboards_know_them() -> None:
    metrics = RepairMetrics()
    metrics.failed[RepairTrouble.NO_SOURCE] += 1
    metrics.waiting_now[RepairTrouble.HELD] += 2
    metrics.bytes_moved[Route("a", "b", Cause.LOST)] += 3

    text = exposition.render(exposition.counted("zonekeeper_repair", metrics, of_now=False))

    assert 'zonekeeper_repair_failed_total{trouble="no-source"} 1\n' in text
    assert 'zonekeeper_repair_waiting{trouble="held"} 2\n' in text
    assert 'zonekeeper_repair_bytes_moved_total{source="a",target="b",cause="lost"} 3\n' in text
