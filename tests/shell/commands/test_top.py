"""``zonekeeper top``: what a page says, what happened in between, and which bookies are slow."""

import json
import math
import threading
from collections import Counter

import pytest
from click.testing import CliRunner, Result

from tests.shell.ledger_world import ZONES
from tests.support.bookie_processes import BookieProcesses
from zonekeeper.bookie.serving.measuring import OK, Measures
from zonekeeper.client.api import blocking
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.shell.commands.top import top
from zonekeeper.shell.reports import top_metrics, top_rows
from zonekeeper.shell.reports.top_metrics import BookieWork, NotMetricsError
from zonekeeper.shell.reports.top_rows import SampledBookie
from zonekeeper.wire.formats import exposition

LIMIT_S = 60


def page(measures: Measures, boot_epoch: int = 1, *reasons: str) -> str:
    """Write a page as a bookie does."""
    return exposition.render(
        [
            *measures.families(),
            exposition.single("zonekeeper_bookie_boot_epoch", boot_epoch, "Start."),
            exposition.single("zonekeeper_bookie_waiting_bytes", 4_096, "Waiting."),
            exposition.labelled(
                "zonekeeper_bookie_read_only", "reason", dict.fromkeys(reasons, 1), "Why."
            ),
        ]
    )


def work(**median_s: float) -> BookieWork:
    """Give work of a hundred of each operation, all as long."""
    return BookieWork(
        seconds=2,
        took={name: Counter({s: 100.0}) for name, s in median_s.items()},
        outcomes=Counter({(name, OK): 100 for name in median_s}),
    )


def seen(name: str, done: BookieWork | str) -> SampledBookie:
    return SampledBookie(bookie=BookieId(name), zone=ZoneName(name.split("-")[1]), work=done)


def test_what_happened_is_the_difference_of_two_looks() -> None:
    measures = Measures()
    for _ in range(50):
        measures.done("append", OK, 0.003)
    before = top_metrics.parse(page(measures))
    for _ in range(98):
        measures.done("append", OK, 0.0007)
    measures.done("append", OK, 0.2)
    measures.done("append", "Timeout", 60)
    measures.done("read", "IoFailed", 0.01)
    after = top_metrics.parse(page(measures, 1, 'a "reason"\\ \n of two lines'))

    found = top_metrics.between(before, after, 2.0)

    assert found.per_second("append") == 50
    assert found.quantile_ms("append", 0.5) == 1
    assert found.quantile_ms("append", 0.99) == 250
    assert math.isinf(found.quantile_ms("append", 1.0) or 0)
    assert found.quantile_ms("fence", 0.5) is None
    assert found.errors == {"Timeout": 1, "IoFailed": 1}
    assert after.waiting_bytes == 4_096
    assert after.read_only_because == ('a "reason"\\ \n of two lines',)


def test_a_bookie_that_was_started_again_has_done_what_it_counted_since() -> None:
    measures = Measures()
    for _ in range(50):
        measures.done("append", OK, 0.003)
    again = Measures()
    again.done("append", OK, 0.0007)

    looks = [top_metrics.parse(page(measures, 1)), top_metrics.parse(page(again, 2))]

    assert top_metrics.between(looks[0], looks[1], 1.0).per_second("append") == 1


@pytest.mark.parametrize("text", ["", "<html>", "up 1\n", "up{} one\n", "zonekeeper_x {"])
def test_a_page_that_is_not_a_bookies_is_not_taken_for_one(text: str) -> None:
    with pytest.raises(NotMetricsError):
        top_metrics.parse(text)


def test_the_slow_one_has_a_name() -> None:
    quick, slow = work(append=0.004, read=0.002), work(append=0.064, read=0.002)
    found = top_rows.rows(
        [
            seen("bk-b-0", quick),
            seen("bk-a-1", slow),
            seen("bk-a-0", quick),
            seen("bk-c-0", "not registered"),
        ]
    )

    assert [(row.zone, row.bookie) for row in found] == [
        *(("a", None), ("a", "bk-a-0"), ("a", "bk-a-1")),
        *(("b", None), ("b", "bk-b-0")),
        *(("c", None), ("c", "bk-c-0")),
    ]
    remarks = {row.bookie or row.zone: row.remarks for row in found if row.remarks}
    assert remarks == {
        "bk-a-1": ("slow appends",),
        "bk-c-0": ("not registered",),
        "c": ("1 of 1 not seen",),
    }
    zone = found[0]
    assert zone.work is not None
    assert zone.work.per_second("append") == 100
    assert zone.work.quantile_ms("append", 0.99) == 64


def test_nobody_is_slow_among_two_or_when_all_are_quick() -> None:
    slow = work(append=0.064)
    assert not any(
        row.remarks for row in top_rows.rows([seen("bk-a-0", slow), seen("bk-b-0", slow)])
    )
    quick = [seen(f"bk-a-{n}", work(append=s)) for n, s in enumerate([0.001, 0.001, 0.008])]
    assert not any(row.remarks for row in top_rows.rows(quick))


@pytest.mark.parametrize(
    ("counts", "remark"),
    [
        ({0.002: 40, 0.25: 10}, "slow appends at times"),
        ({0.002: 4_000, 0.125: 60}, "slow appends at times"),
        ({0.002: 40, math.inf: 3}, "slow appends at times"),
        ({0.064: 40, 0.25: 10}, "slow appends"),
        ({0.004: 40, 0.032: 10}, None),
        ({0.004: 40, 0.064: 10}, None),
        ({0.002: 40, 1.0: 2}, None),  # a hiccup
        ({0.002: 4_000, 1.0: 20}, None),  # fewer than one in a hundred
    ],
)
def test_one_that_stands_still_again_and_again_is_told_from_a_hiccup(
    counts: dict[float, float], remark: str | None
) -> None:
    usual: list[dict[float, float]] = [{0.004: 80, 0.008: 20}, {0.004: 80, 0.032: 20}]
    works = [
        BookieWork(seconds=2, took={"append": Counter(each)}) for each in (*usual, *usual, counts)
    ]
    found = top_rows.rows([seen(f"bk-a-{n}", each) for n, each in enumerate(works)])

    remarks = {row.bookie: row.remarks for row in found if row.remarks}
    assert remarks == ({} if remark is None else {"bk-a-4": (remark,)})


def test_when_all_stand_still_at_times_none_is_the_one() -> None:
    stalled = BookieWork(seconds=2, took={"append": Counter({0.004: 80.0, 0.25: 20.0})})
    assert not any(
        row.remarks for row in top_rows.rows([seen(f"bk-a-{n}", stalled) for n in range(4)])
    )


def call(cluster: BookieProcesses, *words: str) -> Result:
    return CliRunner().invoke(top, [*words, "--metadata", cluster.address], catch_exceptions=False)


def looked_until_all_append(cluster: BookieProcesses) -> Result:
    """Look until each has appended in between: one may stand still for as long as a look takes."""
    for _ in range(LIMIT_S):
        result = call(cluster, "--once", "--every", "1", "-o", "json")
        assert result.exit_code == 0, result.output
        rows = json.loads(result.stdout)["bookies"]
        if all(row["seen"] and row["append"]["perSecond"] > 0 for row in rows):
            return result
    raise AssertionError("not all of them are seen at work")


@pytest.mark.processes
def test_bookies_at_work_are_seen_and_one_that_is_gone_is_said_to_be(
    cluster: BookieProcesses,
) -> None:
    begun, ended = threading.Event(), threading.Event()

    def write() -> None:
        with blocking.connect(cluster.address) as client, client.create() as writer:
            while not ended.is_set():
                writer.append_and_wait(b"x" * 100)
                begun.set()

    load = threading.Thread(target=write)
    load.start()
    try:
        assert begun.wait(LIMIT_S)
        result = looked_until_all_append(cluster)
    finally:
        ended.set()
        load.join()

    found = json.loads(result.stdout)
    assert [row["bookie"] for row in found["bookies"]] == list(ZONES)
    assert [row["zone"] for row in found["zones"]] == ["a", "b", "c"]
    for row in found["bookies"]:
        assert row["append"]["medianMs"] is not None
        assert row["errors"] == {}

    gone = BookieId("bk-b-0")
    cluster.kill(gone)
    result = call(cluster, "--once", "--every", "0.1", "-o", "json")
    cluster.start(gone)
    row = next(row for row in json.loads(result.stdout)["bookies"] if row["bookie"] == gone)
    assert (row["seen"], len(row["remarks"])) == (False, 1)


@pytest.mark.processes
def test_one_zone_is_looked_at_alone_and_text_is_for_people(cluster: BookieProcesses) -> None:
    text = call(cluster, "--once", "--every", "0.1", "--zone", "a").stdout
    assert "bk-a-0" in text
    assert "bk-b-0" not in text

    unknown = call(cluster, "--once", "--zone", "nowhere")
    assert unknown.exit_code == 2
    assert "there is no zone nowhere; there are a, b, c" in unknown.stderr
    never = call(cluster, "--once", "--every", "nan")
    assert (never.exit_code, "no number of seconds" in never.stderr) == (2, True)
    endless = call(cluster, "-o", "json")
    assert (endless.exit_code, "--once" in endless.stderr) == (2, True)
