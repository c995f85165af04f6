"""``zonekeeper maintenance``: declare planned work, so that it does not count as an outage."""

import random
from typing import Final

import click
from rich import box
from rich.table import Table
from rich.text import Text

from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.placement.base import units
from zonekeeper.placement.base.ids import UpgradeDomain, ZoneName
from zonekeeper.placement.zones import counted_time
from zonekeeper.placement.zones.gate import Person
from zonekeeper.placement.zones.maintenance import Maintenance
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.replication.gate import planned_work
from zonekeeper.replication.gate.planned_work import Wanted
from zonekeeper.replication.view.view import View
from zonekeeper.shell.reaching import reaching
from zonekeeper.shell.reaching.reaching import Place

_ENDED: Final = "ended"
_PLANNED: Final = "would be declared"
_ZONE = click.option("--zone", required=True, help="The zone to work on.")
_DOMAIN = click.option(
    "--upgrade-domain", "domain", metavar="UD", help="Its upgrade domain.  [default: all of them]"
)


def _duration(_ctx: click.Context, _option: click.Parameter, text: str) -> int:
    """Read a duration as in the policy: ``30m``, ``2h``."""
    duration_ms = units.duration_ms(text)
    if duration_ms is None:
        raise click.BadParameter(f"{text!r}: write a whole number and ms, s, m, h or d, as 30m")
    return duration_ms


@click.group()
def maintenance() -> None:
    """Declare planned work, so that it is no outage."""


@maintenance.command(
    epilog='Example: zonekeeper maintenance start --zone b --for 30m --reason "new kernel"'
)
@_ZONE
@_DOMAIN
@click.option(
    "--for",
    "lasts_ms",
    callback=_duration,
    required=True,
    metavar="DURATION",
    help="How long at most; then it ends by itself. zoneWatch.maintenanceMax bounds it.",
)
@reaching.by_person_or_dry_run
@reaching.on_cluster
def start(
    zone: str, domain: str | None, lasts_ms: int, who: Person, dry_run: bool, place: Place
) -> None:
    """Declare planned work on a zone, or on one of its upgrade domains.

    Until `maintenance end`, or until the time is over, the bookies there are not counted and their
    losses are held. Either the whole unit is declared or nothing.
    """
    declared, warnings = reaching.run(
        _start(place, _wanted(zone, domain), who, lasts_ms, dry_run=dry_run)
    )
    _answer(place, declared, _PLANNED if dry_run else "declared", warnings)


@maintenance.command(epilog='Example: zonekeeper maintenance end --zone b --reason "it is done"')
@_ZONE
@_DOMAIN
@reaching.by_person
@reaching.on_cluster
def end(zone: str, domain: str | None, who: Person, place: Place) -> None:
    """End planned work: a bookie that is missing from now on counts as missing again."""
    lifted = reaching.run(_end(place, _wanted(zone, domain), who))
    _answer(place, lifted, _ENDED, ())


@maintenance.command("list", epilog="Example: zonekeeper maintenance list")
@reaching.on_cluster
def list_command(place: Place) -> None:
    """Show what is declared, and how long it has run."""
    rows = reaching.run(_list(place))
    if place.as_json:
        reaching.print_json({"maintenance": rows})
        return
    table = Table(box=box.SIMPLE)
    for title in ("unit", "runs", "of", "declared by"):
        table.add_column(title, no_wrap=title != "declared by")
    for row in rows:
        ran, most = row["ranMs"], row["lastsMs"]
        assert isinstance(ran, int)
        assert isinstance(most, int)
        table.add_row(
            Text(str(row["unit"])),
            counted_time.spelled(ran),
            counted_time.spelled(most),
            Text(str(row["by"])),
        )
    reaching.console().print(table if rows else "nothing is declared")


async def _start(
    place: Place, wanted: Wanted, who: Person, lasts_ms: int, *, dry_run: bool
) -> tuple[tuple[Maintenance, ...], tuple[str, ...]]:
    async with reaching.opened(place) as cluster, reaching.seen(cluster) as view:
        where = planned_work.units(wanted, view.topology)
        chance = random.SystemRandom()
        declared = planned_work.planned(where, who, lasts_ms, view.policy, chance)
        if not dry_run:
            told = reaching.chronicle(cluster, who.name)
            await planned_work.start(cluster, declared, told)
        return declared, tuple(_warnings(wanted.zone, view))


def _warnings(zone: ZoneName, view: View) -> list[str]:
    """Name other zones that are not up or in maintenance: two must not be down together."""
    others = {
        name: record.observed.state
        for name, record in view.zones.items()
        if name != zone and record.observed.state not in (Observation.UP, Observation.UNKNOWN)
    }
    found = [f"zone {name} is {state} now" for name, state in sorted(others.items())]
    units_there = sorted(str(unit) for unit in view.maintenance if unit.zone != zone)
    return found + [f"{unit} is in maintenance, too" for unit in units_there]


async def _end(place: Place, wanted: Wanted, who: Person) -> tuple[Maintenance, ...]:
    async with reaching.opened(place) as cluster, reaching.seen(cluster) as view:
        standing = tuple(
            one
            for unit, one in sorted(view.maintenance.items())
            if unit.zone == wanted.zone and wanted.domain in (None, unit.upgrade_domain)
        )
        if not standing:
            known = ", ".join(map(str, sorted(view.maintenance))) or "nothing"
            raise RefusedCommand(f"no such maintenance is declared: {known} is")
        told = reaching.chronicle(cluster, who.name)
        await planned_work.end(cluster, standing, who, told)
        return standing


async def _list(place: Place) -> list[dict[str, object]]:
    async with reaching.opened(place) as cluster, reaching.seen(cluster) as view:
        record = view.cluster_record
        ran_ms = {one.token: one.ms for one in record.maintenance} if record else {}
        return [
            _plain(one) | {"ranMs": ran_ms.get(one.token, 0)}
            for _, one in sorted(view.maintenance.items())
        ]


def _wanted(zone: str, domain: str | None) -> Wanted:
    return Wanted(zone=ZoneName(zone), domain=None if domain is None else UpgradeDomain(domain))


def _plain(one: Maintenance) -> dict[str, object]:
    return {
        "unit": str(one.unit),
        "token": one.token,
        "lastsMs": one.lasts_ms,
        "by": str(one.declared_by),
    }


def _answer(
    place: Place, declared: tuple[Maintenance, ...], what: str, warnings: tuple[str, ...]
) -> None:
    if place.as_json:
        units_plain = [_plain(one) for one in declared]
        key = "wouldBeDeclared" if what == _PLANNED else what
        reaching.print_json({key: units_plain, "warnings": list(warnings)})
        return
    for one in declared:
        lasts = "" if what == _ENDED else f", for {counted_time.spelled(one.lasts_ms)}"
        click.echo(f"{what}: {one.unit}{lasts}")
    for warning in warnings:
        click.echo(f"careful: {warning}", err=True)
