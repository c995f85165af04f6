"""Numbers in Prometheus' text format."""

import enum
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from zonekeeper.replication import exposition
from zonekeeper.replication.exposition import Family


class Why(enum.StrEnum):
    OPEN = "open"


class Route(NamedTuple):
    source: str
    cause: Why


@dataclass
class Numbers:
    ledgers: int = 3
    seen_total: int = 4
    under_way_now: int = 1
    bytes_moved: Counter[Route] = field(default_factory=lambda: Counter({Route("a", Why.OPEN): 7}))
    failed: Counter[Why] = field(default_factory=lambda: Counter({Why.OPEN: 2}))
    free: dict[str, int] = field(default_factory=lambda: {"b": 5, "a": 6})
    ledgers_by_level: dict[str, int] = field(default_factory=lambda: {"soft": 1})


def test_what_a_class_counts_is_exposed_by_the_endings_of_its_names() -> None:
    text = exposition.render(exposition.counted("zk", Numbers(), of_now=False))
    assert text.splitlines() == [
        "# TYPE zk_ledgers_total counter",
        "zk_ledgers_total 3",
        "# TYPE zk_seen_total counter",
        "zk_seen_total 4",
        "# TYPE zk_under_way gauge",
        "zk_under_way 1",
        "# TYPE zk_bytes_moved_total counter",
        'zk_bytes_moved_total{source="a",cause="open"} 7',
        "# TYPE zk_failed_total counter",
        'zk_failed_total{why="open"} 2',
        "# TYPE zk_free_total counter",
        'zk_free_total{zone="a"} 6',
        'zk_free_total{zone="b"} 5',
        "# TYPE zk_ledgers_by_level_total counter",
        'zk_ledgers_by_level_total{level="soft"} 1',
    ]


def test_where_a_class_tells_how_it_is_now_plain_names_are_gauges() -> None:
    text = exposition.render(exposition.counted("zk", Numbers(), of_now=True))
    assert "# TYPE zk_ledgers gauge" in text
    assert "# TYPE zk_seen_total counter" in text


def test_a_label_may_hold_anything_and_a_number_is_whole() -> None:
    text = exposition.render([Family("zk_x", {(("zone", 'a"\\\n'),): 12_345_678_901})])
    assert text == '# TYPE zk_x gauge\nzk_x{zone="a\\"\\\\\\n"} 12345678901\n'
