"""A preflight for people and for programs."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich import box
from rich.table import Table

from zonekeeper.placement.base import units
from zonekeeper.placement.zones import counted_time
from zonekeeper.placement.zones.gate import Gate
from zonekeeper.replication.decisions.preflight import Preflight
from zonekeeper.shell.reaching import reaching


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightSeen:
    """The facts that a person sees before deciding."""

    what: str
    #: The held gates that would be opened.
    gates: tuple[Gate, ...]
    preflight: Preflight


def show(looked: PreflightSeen) -> None:
    """Draw the preflight for people."""
    table = Table(box=box.SIMPLE, show_header=False, title=looked.what)
    for name, text in rows(looked.preflight):
        table.add_row(name, text)
    console = reaching.console()
    for gate in looked.gates:
        console.print(f"held for {counted_time.spelled(gate.held_ms)}: {gate.reason}", markup=False)
    console.print(table)


def rows(counted: Preflight) -> Iterator[tuple[str, str]]:
    """Give the name and the spelling of each figure."""
    work = counted.work
    yield "bookies lost", f"{len(counted.bookies)}: {', '.join(counted.bookies)}"
    yield "ledgers", f"{work.ledgers}, of which {work.open_ledgers} are open (bytes not known)"
    if work.beyond_repair:
        yield (
            "beyond repair",
            f"{work.beyond_repair} ledgers have entries without a copy that can be reached",
        )
    if work.unreadable:
        yield "unreadable", f"{work.unreadable} ledgers: whether they need repair is unknown"
    yield "to be copied", spelled_size(work.bytes)
    yield "across zones", spelled_size(int(work.crossing_bytes))
    for one in counted.headroom:
        free = ", ".join(f"{zone} {spelled_size(size)}" for zone, size in one.free_bytes.items())
        yield f"room for {one.zone}", f"{one.room.value}: {one.why} (free: {free or 'unknown'})"
    rate = counted.bytes_per_second
    speed = "without a limit" if rate is None else f"at {spelled_size(rate)}/s"
    duration = counted.duration_ms
    took = "unknown" if duration is None else counted_time.spelled(duration)
    yield "time", f"{took}, by {counted.processes} processes {speed}"


def plain(looked: PreflightSeen, *, done: bool) -> dict[str, object]:
    """Give the preflight as plain data; ``done``: the action was carried out as well."""
    counted = looked.preflight
    return {
        "done": done,
        "what": looked.what,
        "tokens": [gate.token for gate in looked.gates],
        "bookies": list(counted.bookies),
        "ledgers": counted.work.ledgers,
        "openLedgers": counted.work.open_ledgers,
        "beyondRepair": counted.work.beyond_repair,
        "unreadable": counted.work.unreadable,
        "bytes": counted.work.bytes,
        "crossingBytes": int(counted.work.crossing_bytes),
        "room": counted.room.value,
        "rooms": {
            one.zone: {
                "room": one.room.value,
                "why": one.why,
                "neededBytes": one.needed_bytes,
                "freeBytes": dict(one.free_bytes),
            }
            for one in counted.headroom
        },
        "processes": counted.processes,
        "bytesPerSecond": counted.bytes_per_second,
        "durationMs": counted.duration_ms,
        "refusal": counted.refusal,
    }


def spelled_size(size_bytes: int) -> str:
    """Spell a measured size in its largest unit."""
    for unit, worth in (("TiB", units.TIB), ("GiB", units.GIB), ("MiB", units.MIB)):
        if size_bytes >= worth:
            return f"{size_bytes / worth:.1f} {unit}"
    return f"{size_bytes / units.KIB:.1f} KiB" if size_bytes else "0"
