"""``zonekeeper plan``: what is held, the named predicate that holds it, and its runbook."""

from dataclasses import dataclass

import click
from rich import box
from rich.table import Table
from rich.text import Text

from zonekeeper.metadata.commands import opening
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.zones.losses import Held
from zonekeeper.shell.commands import zones
from zonekeeper.shell.reaching import evaluating, reaching, second_hand
from zonekeeper.shell.reaching.reaching import Place
from zonekeeper.shell.reports import second_hand_text


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLine:
    """A zone, unit or bookie whose losses are held, or would be."""

    what: str
    held: Held

    @property
    def runbook(self) -> str:
        """The name of the runbook, which says what to do."""
        return str(self.held.by)

    def plain(self) -> dict[str, str]:
        """Give the line as plain data."""
        return {
            "what": self.what,
            "predicate": self.held.by,
            "text": self.held.text,
            "runbook": self.runbook,
        }


@click.command(epilog="Example: zonekeeper plan --output json")
@evaluating.WAIT
@reaching.on_cluster
def plan(wait: bool, place: Place) -> None:
    """Show what automatic repair waits for, and its runbook.

    A zone, or a unit under maintenance, is listed if a loss in it would be held now. A missing
    bookie is listed if more than its zone's hold holds its loss. Missing bookies that nothing holds
    stand below. Autorecovery counts how long each is missing; this command does not know it. Zones
    that have bookies, and that the policy does not name, stand last: nothing is copied there.
    """
    lines, missing, unused = second_hand.run(
        place, _plan(place, wait=wait), lambda away: second_hand_text.show_plan(place, away)
    )
    if place.as_json:
        held = [one.plain() for one in lines]
        reaching.print_json({"held": held, "missing": missing, "notNamed": unused})
        return
    console = reaching.console()
    if not lines:
        console.print("nothing is held")
    else:
        table = Table(box=box.SIMPLE)
        for title in ("what", "predicate", "why"):
            table.add_column(title, no_wrap=title != "why")
        for one in lines:
            table.add_row(*map(Text, (one.what, one.held.by, one.held.text)))
        console.print(table)
        for runbook in sorted({one.runbook for one in lines}):
            console.print(f"what to do: zonekeeper runbook {runbook}")
    if missing:
        console.print(f"missing, and repaired once nothing holds it: {', '.join(missing)}")
    for text in unused.values():
        console.print(text, markup=False)


async def _plan(
    place: Place, *, wait: bool
) -> tuple[list[PlanLine], list[str], dict[ZoneName, str]]:
    async with reaching.opened(place) as cluster, reaching.seen(cluster) as view:
        if wait:
            async with opening.attended(cluster.store):
                await evaluating.every_record(view)
        found = [
            PlanLine(what=f"zone {zone}", held=held)
            for zone in zones.zones_of(view)
            if (held := view.what_holds_zone(zone)) is not None
        ]
        found += [
            PlanLine(what=f"{unit}", held=held)
            for unit in sorted(view.maintenance)
            if (held := view.what_holds(unit)) is not None
        ]
        missing, by_zone = [], {one.what: one.held for one in found}
        for name, where in sorted(view.missing.items()):
            if name in view.written_off:
                continue
            held = view.what_holds_bookie(name)
            if held is None:
                missing.append(str(name))
            elif where is None or held != by_zone.get(f"zone {where.zone}"):
                found.append(PlanLine(what=f"bookie {name}", held=held))
        return found, missing, zones.not_named(view)
