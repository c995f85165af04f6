"""Numbers in Prometheus' text format."""

import enum
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from zonekeeper.wire.formats import exposition
from zonekeeper.wire.formats.exposition import (
    BOUNDS_S,
    Family,
    Histogram,
    HistogramFamily,
    number,
    numbers_by,
)


class Why(enum.StrEnum):
    LABEL = enum.nonmember("why")

    OPEN = "open"


class Route(NamedTuple):
    source: str
    cause: Why


@dataclass
class Numbers:
    ledgers: int = number("Ledgers.")
    seen_total: int = number("Seen.")
    under_way_now: int = number("Under way.")
    bytes_moved: Counter[Route] = numbers_by("Bytes.")
    failed: Counter[Why] = numbers_by("Failures.")
    free: Counter[str] = numbers_by("Room.")
    ledgers_by_level: Counter[str] = numbers_by("Levels.")


def some() -> Numbers:
    return Numbers(
        ledgers=3,
        seen_total=4,
        under_way_now=1,
        bytes_moved=Counter({Route("a", Why.OPEN): 7}),
        failed=Counter({Why.OPEN: 2}),
        free=Counter({"b": 5, "a": 6}),
        ledgers_by_level=Counter({"soft": 1}),
    )


def test_what_a_class_counts_is_exposed_by_the_endings_of_its_names() -> None:
    text = exposition.render(exposition.counted("zk", some(), of_now=False))
    assert text.splitlines() == [
        "# HELP zk_ledgers_total Ledgers.",
        "# TYPE zk_ledgers_total counter",
        "zk_ledgers_total 3",
        "# HELP zk_seen_total Seen.",
        "# TYPE zk_seen_total counter",
        "zk_seen_total 4",
        "# HELP zk_under_way Under way.",
        "# TYPE zk_under_way gauge",
        "zk_under_way 1",
        "# HELP zk_bytes_moved_total Bytes.",
        "# TYPE zk_bytes_moved_total counter",
        'zk_bytes_moved_total{source="a",cause="open"} 7',
        "# HELP zk_failed_total Failures.",
        "# TYPE zk_failed_total counter",
        'zk_failed_total{why="open"} 2',
        "# HELP zk_free_total Room.",
        "# TYPE zk_free_total counter",
        'zk_free_total{zone="a"} 6',
        'zk_free_total{zone="b"} 5',
        "# HELP zk_ledgers_by_level_total Levels.",
        "# TYPE zk_ledgers_by_level_total counter",
        'zk_ledgers_by_level_total{level="soft"} 1',
    ]


def test_where_a_class_tells_how_it_is_now_plain_names_are_gauges() -> None:
    text = exposition.render(exposition.counted("zk", some(), of_now=True))
    assert "# TYPE zk_ledgers gauge" in text
    assert "# TYPE zk_seen_total counter" in text


def test_a_label_may_hold_anything_and_a_number_is_whole() -> None:
    text = exposition.render([Family("zk_x", {(("zone", 'a"\\\n'),): 12_345_678_901}, "X.")])
    assert text == '# HELP zk_x X.\n# TYPE zk_x gauge\nzk_x{zone="a\\"\\\\\\n"} 12345678901\n'


def test_what_a_name_means_stands_before_its_numbers() -> None:
    text = exposition.render([exposition.single("x_total", 0.5, "All of them.")])
    assert text == "# HELP x_total All of them.\n# TYPE x_total counter\nx_total 0.5\n"


def test_a_histogram_counts_what_took_at_most_each_bound() -> None:
    histogram = Histogram()
    for seconds in (0.0, BOUNDS_S[0], 0.0011, 99.0):
        histogram.observe(seconds)

    text = exposition.render(
        [HistogramFamily(name="h", help="Time.", label="operation", histograms={"read": histogram})]
    )

    lines = text.splitlines()
    assert lines[:5] == [
        "# HELP h Time.",
        "# TYPE h histogram",
        'h_bucket{operation="read",le="0.0005"} 2',
        'h_bucket{operation="read",le="0.001"} 2',
        'h_bucket{operation="read",le="0.002"} 3',
    ]
    assert lines[-3] == 'h_bucket{operation="read",le="+Inf"} 4'
    assert lines[-2].startswith('h_sum{operation="read"} 99.001')
    assert lines[-1] == 'h_count{operation="read"} 4'
    assert len(lines) == 2 + len(BOUNDS_S) + 3


def test_nothing_to_show_is_a_name_without_numbers() -> None:
    family = HistogramFamily(name="h", help="Time.", label="operation", histograms={})

    assert exposition.render([family]) == "# HELP h Time.\n# TYPE h histogram\n"
