"""What a repair of the marked ledgers would copy, for the person who starts it. Pure.

The figures are those of a release (``preflight``), for the marked ledgers alone. What is held, and
what no mark names yet, is said beside them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from zonekeeper.pipeline.reports.report_page import size
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.promises.cost import Prices
from zonekeeper.placement.zones import counted_time
from zonekeeper.replication.decisions.preflight import Preflight

#: A line names at most so many bookies.
_NAMED_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPreflight:
    """What is marked, and what a repair would do."""

    #: Ledgers whose mark names a bookie.
    marked: int
    #: ``held <= marked``: those whose mark names only bookies that are held.
    held: int
    #: ``doubted <= marked``: those with a copy on a registered bookie that is looked at.
    doubted: int
    #: ``unresolved <= marked``: those whose mark names a bookie that has no cookie.
    unresolved: int
    #: Ledgers whose mark asks only for a better spread.
    spread: int
    #: Lost bookies that no mark names, and that are not written off.
    unmarked: tuple[BookieId, ...]
    #: Why copies of bookies may not be made again, by bookie.
    holds: Mapping[BookieId, str]
    counted: Preflight


def lines(found: RepairPreflight, prices: Prices | None) -> Iterator[str]:
    """Give the preflight, line by line."""
    counted = found.counted
    yield f"marked for repair: {found.marked} ledgers"
    if counted.bookies:
        yield f"lost: {_named(counted.bookies)}"
    if counted.work.ledgers:
        yield from _copied(counted, prices)
    if found.doubted:
        yield f"to be looked at: copies of {found.doubted} ledgers on bookies that are registered"
    yield from _left(found)


def _copied(counted: Preflight, prices: Prices | None) -> Iterator[str]:
    work = counted.work
    price = ""
    if prices is not None:
        money = float(prices.money(work.crossing_bytes))
        price = f", for {money:.2f} {prices.currency} ({prices.source}, {prices.as_of})"
    yield (
        f"to be copied: {size(work.bytes)} of {work.ledgers} ledgers; "
        f"{size(int(work.crossing_bytes))} cross zones on average{price}"
    )
    if work.open_ledgers:
        yield f"of these {work.open_ledgers} ledgers are open, and their bytes are not known"
    if work.beyond_repair:
        yield f"beyond repair: {work.beyond_repair} ledgers have entries without a living copy"
    for one in counted.headroom:
        yield f"room for {one.zone}: {one.room.value}, {one.why}"
    if counted.duration_ms is not None:
        yield f"time: at least {counted_time.spelled(counted.duration_ms)} at this rate"


def _left(found: RepairPreflight) -> Iterator[str]:
    if unreadable := found.counted.work.unreadable:
        yield f"unreadable: {unreadable} ledgers, or their marks; they are left"
    if found.unresolved:
        count = found.unresolved
        yield f"not in these figures: copies of {count} ledgers on bookies without a cookie"
    if found.spread:
        yield f"left to autorecovery: {found.spread} ledgers are only to be spread better"
    if found.held:
        yield f"held: {found.held} ledgers are left"
    for text, bookies in _by_text(found.holds).items():
        yield f"held: {_named(bookies)}: {text}"
    if found.unmarked:
        yield (
            f"not marked: no mark names {_named(found.unmarked)}, and they are not written off; "
            "the auditor marks their ledgers once nothing holds them: then start the job again"
        )


def _by_text(holds: Mapping[BookieId, str]) -> dict[str, tuple[BookieId, ...]]:
    found: dict[str, tuple[BookieId, ...]] = {}
    for bookie, text in sorted(holds.items()):
        found[text] = (*found.get(text, ()), bookie)
    return found


def _named(bookies: tuple[BookieId, ...]) -> str:
    more = len(bookies) - _NAMED_MAX
    return ", ".join(bookies[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
