"""The zones of a snapshot, with their upgrade domains and bookies. Pure.

Nothing is judged here: records, holds, restrictions and slowness come as they were judged
elsewhere. In a large cluster only the bookies about which something is to be said are shown, a
bounded number of each unit, and the others are counted.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones.losses import Held
from zonekeeper.placement.zones.zone_records import Record
from zonekeeper.shell.console.figures import ClusterFigures
from zonekeeper.shell.console.snapshot import (
    BookieFigures,
    BookiePart,
    GatePart,
    HoldPart,
    UnitPart,
    ZonePart,
)

#: A larger cluster is shown by units.
BOOKIES_SHOWN_MAX: Final = 150
#: So many bookies of a unit are shown then.
UNIT_BOOKIES_MAX: Final = 12

WRITABLE: Final = "writable"
ABSENT: Final = "absent"
_NOTHING: Final = BookieFigures()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedBookie:
    """A bookie and where it stands; None: not known."""

    bookie: BookiePart
    zone: str | None
    upgrade_domain: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldZone:
    """What is told of one zone."""

    gate: GatePart
    held: HoldPart | None = None
    is_named: bool = True


def gate_part(record: Record | None) -> GatePart:
    """Give a record as a part; for None, one that says that there is no readable record."""
    if record is None:
        return NO_RECORD
    gate, count = record.gate, record.evidence
    _, _, left_out = str(count).partition(" (not counted: ")
    return GatePart(
        observation=str(record.observed.state),
        because=record.observed.reason,
        since_ms=record.observed.since_wall_ms,
        available=count.available,
        counted=count.total,
        not_counted=left_out.removesuffix(")"),
        permission=str(gate.permission),
        reason=gate.reason,
        set_by=gate.set_by,
        permission_since_ms=gate.since_wall_ms,
        held_ms=0 if gate.permits else gate.held_ms,
        token=gate.token,
        evaluation=record.evaluation,
    )


NO_RECORD: Final = GatePart(
    observation="unknown",
    because="there is no readable record: no zone watch has evaluated it yet",
    since_ms=None,
    available=None,
    counted=None,
    not_counted="",
    permission="held",
    reason="there is no readable record, and what is unknown is held",
    set_by="",
    permission_since_ms=None,
    held_ms=0,
    token=None,
    evaluation=None,
)


#: The gate of a zone whose record nobody could be asked for.
NOT_READ: Final = replace(
    NO_RECORD,
    because="not read: the store is away, and no autorecovery process says it",
    permission="unknown",
    reason="not read",
)


def hold_part(held: Held | None) -> HoldPart | None:
    """Give what holds as a part; the runbook of a predicate has its name."""
    return None if held is None else HoldPart(by=str(held.by), text=held.text, runbook=str(held.by))


def zones(
    placed: Sequence[PlacedBookie],
    told: Mapping[str, ToldZone],
    maintenance: Mapping[tuple[str, str], str],
    figures: ClusterFigures,
    *,
    otherwise: GatePart = NO_RECORD,
) -> tuple[ZonePart, ...]:
    """Give every zone that is told of, sorted; bookies whose zone is not known stand last.

    ``otherwise`` is the gate of a zone that has bookies and of which nothing is told.
    """
    by_zone: dict[str | None, list[PlacedBookie]] = {zone: [] for zone in sorted(told)}
    for one in placed:
        by_zone.setdefault(one.zone, []).append(one)
    all_shown = len(placed) <= BOOKIES_SHOWN_MAX
    return tuple(
        ZonePart(
            zone=zone,
            is_named=here.is_named,
            gate=here.gate,
            held=here.held,
            units=tuple(_units(zone, by_zone[zone], maintenance, figures, all_shown=all_shown)),
            size=len(by_zone[zone]),
            free_bytes=_sum(one.bookie.free_bytes for one in by_zone[zone]),
            total_bytes=_sum(one.bookie.total_bytes for one in by_zone[zone]),
            figures=figures.zones.get(zone, _NOTHING),
        )
        for zone in sorted(by_zone, key=lambda one: (one is None, one or ""))
        for here in [told.get(zone or "") or ToldZone(gate=otherwise)]
    )


def unit(
    placed: Iterable[PlacedBookie], zone: str, upgrade_domain: str, figures: ClusterFigures
) -> tuple[BookiePart, ...]:
    """Give all bookies of one unit, sorted; an empty name stands for one that is not known."""
    wanted = (zone, upgrade_domain)
    here = [one.bookie for one in placed if (one.zone or "", one.upgrade_domain or "") == wanted]
    return tuple(sorted((_with(one, figures) for one in here), key=lambda one: one.id))


def _units(
    zone: str | None,
    placed: Sequence[PlacedBookie],
    maintenance: Mapping[tuple[str, str], str],
    figures: ClusterFigures,
    *,
    all_shown: bool,
) -> Iterable[UnitPart]:
    by_unit: dict[str, list[BookiePart]] = {}
    for one in sorted(placed, key=lambda one: one.bookie.id):
        by_unit.setdefault(one.upgrade_domain or "", []).append(_with(one.bookie, figures))
    for name, bookies in sorted(by_unit.items()):
        shown = bookies if all_shown else list(filter(_is_notable, bookies))[:UNIT_BOOKIES_MAX]
        yield UnitPart(
            upgrade_domain=name,
            size=len(bookies),
            states=dict(sorted(Counter(one.state for one in bookies).items())),
            maintenance=maintenance.get((zone or "", name)),
            bookies=tuple(shown),
            not_shown=len(bookies) - len(shown),
            figures=figures.units.get((zone, name), _NOTHING),
        )


def _with(bookie: BookiePart, figures: ClusterFigures) -> BookiePart:
    """Give the bookie with its figures, and what they say of it."""
    name = BookieId(bookie.id)
    # A bookie that is absent does not answer, either: that says nothing new.
    remarks = figures.remarks.get(name, ()) if bookie.state != ABSENT else ()
    return replace(
        bookie,
        figures=figures.bookies.get(name, _NOTHING),
        answers=figures.answers.get(name, bookie.answers),
        remarks=(*bookie.remarks, *(one for one in remarks if one not in bookie.remarks)),
    )


def _is_notable(bookie: BookiePart) -> bool:
    return bool(
        bookie.state != WRITABLE
        or bookie.remarks
        or bookie.draining
        or bookie.written_off
        or bookie.answers is False
    )


def _sum(sizes: Iterable[int | None]) -> int | None:
    """Sum up sizes; None: one of them is unknown, or there are none."""
    found = list(sizes)
    known = [one for one in found if one is not None]
    return sum(known) if found and len(known) == len(found) else None
