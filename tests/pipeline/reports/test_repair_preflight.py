"""The preflight of a repair: what is copied, what that costs, and what is left."""

import dataclasses
from fractions import Fraction

from zonekeeper.pipeline.reports import repair_preflight
from zonekeeper.pipeline.reports.repair_preflight import RepairPreflight
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.promises.cost import Prices
from zonekeeper.placement.promises.headroom import Headroom, Room
from zonekeeper.replication.decisions.preflight import CopyWork, Preflight

A, C = ZoneName("a"), ZoneName("c")
GIB = 1 << 30
WORK = CopyWork(
    ledgers=300,
    open_ledgers=0,
    beyond_repair=0,
    unreadable=0,
    bytes_by_zone={C: 10 * 10**9},
    crossing_bytes=Fraction(5 * 10**9),
)
COUNTED = Preflight(
    bookies=(BookieId("c-0"), BookieId("c-1")),
    work=WORK,
    room=Room.FITS,
    headroom=(
        Headroom(
            zone=C,
            room=Room.FITS,
            why="there is room",
            needed_bytes=GIB,
            free_bytes={A: GIB},
        ),
    ),
    processes=1,
    bytes_per_second=None,
)
FOUND = RepairPreflight(
    marked=300, held=0, doubted=0, unresolved=0, spread=0, unmarked=(), holds={}, counted=COUNTED
)
PRICES = Prices(per_gb=Fraction(2, 100), currency="EUR", as_of="2026-11-27", source="the list")


def said(found: RepairPreflight, prices: Prices | None = None) -> list[str]:
    return list(repair_preflight.lines(found, prices))


def test_a_lost_zone_is_told_in_bytes_crossings_and_money() -> None:
    assert said(FOUND) == [
        "marked for repair: 300 ledgers",
        "lost: c-0, c-1",
        "to be copied: 9.3 GiB of 300 ledgers; 4.7 GiB cross zones on average",
        "room for c: fits, there is room",
    ]
    assert said(FOUND, PRICES)[2].endswith(
        "4.7 GiB cross zones on average, for 0.10 EUR (the list, 2026-11-27)"
    )


def test_with_a_rate_it_says_how_long_that_takes_at_least() -> None:
    limited = dataclasses.replace(COUNTED, bytes_per_second=10**8)
    assert said(dataclasses.replace(FOUND, counted=limited))[-1].startswith("time: at least 1m 40s")


def test_what_is_not_copied_is_said_beside_it() -> None:
    work = dataclasses.replace(WORK, open_ledgers=3, beyond_repair=2, unreadable=1)
    found = dataclasses.replace(
        FOUND,
        held=7,
        doubted=5,
        unresolved=6,
        spread=4,
        unmarked=(BookieId("c-2"),),
        holds={BookieId("b-1"): "zone b is held", BookieId("b-0"): "zone b is held"},
        counted=dataclasses.replace(COUNTED, work=work),
    )
    text = "\n".join(said(found))
    for part in (
        "of these 3 ledgers are open, and their bytes are not known",
        "beyond repair: 2 ledgers",
        "unreadable: 1 ledgers",
        "to be looked at: copies of 5 ledgers",
        "not in these figures: copies of 6 ledgers on bookies without a cookie",
        "left to autorecovery: 4 ledgers",
        "held: 7 ledgers are left",
        "held: b-0, b-1: zone b is held",
        "not marked: no mark names c-2",
    ):
        assert part in text


def test_of_many_bookies_some_are_named() -> None:
    many = tuple(BookieId(f"c-{number}") for number in range(30))
    found = dataclasses.replace(FOUND, counted=dataclasses.replace(COUNTED, bookies=many))
    assert said(found)[1].endswith("c-19 and 10 more")


def test_nothing_is_marked() -> None:
    work = dataclasses.replace(WORK, ledgers=0, bytes_by_zone={}, crossing_bytes=Fraction(0))
    counted = dataclasses.replace(COUNTED, work=work, bookies=())
    found = dataclasses.replace(FOUND, marked=0, counted=counted)
    assert said(found) == ["marked for repair: 0 ledgers"]
