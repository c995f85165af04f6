"""``zonekeeper zones``: the state of each zone, and whether its losses may be repaired."""

from collections.abc import Iterable
from datetime import UTC, datetime

import click
from rich import box
from rich.table import Table
from rich.text import Text

from zonekeeper.metadata.cluster import elections
from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.placement.base import misnamed
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.policy import unnamed
from zonekeeper.placement.policy.legality import BrokenRule
from zonekeeper.placement.zones import counted_time
from zonekeeper.placement.zones.gate import Permission
from zonekeeper.placement.zones.losses import HeldBy
from zonekeeper.placement.zones.zone_effects import Severity
from zonekeeper.placement.zones.zone_records import Record
from zonekeeper.replication.view import held_back
from zonekeeper.replication.view.view import View
from zonekeeper.shell.reaching import reaching, second_hand
from zonekeeper.shell.reaching.reaching import Place
from zonekeeper.shell.reports import second_hand_text, standing, ungated
from zonekeeper.shell.reports.standing import StandingAlert

#: The name of the whole cluster in a list of zones.
CLUSTER = "(cluster)"


@click.group()
def zones() -> None:
    """See which zones are up, and what is held."""


@zones.command(epilog="Example: zonekeeper zones status b")
@click.argument("wanted", metavar="[ZONE]...", nargs=-1)
@reaching.on_cluster
def status(wanted: tuple[str, ...], place: Place) -> None:
    """Show each zone: how many of its bookies are there, whether it is down, what is held and why.

    It shows the records that the zone watch writes. Without a zone watch these records stand still,
    and everything is held.
    """
    names = tuple(map(ZoneName, wanted))
    data, alerts = second_hand.run(
        place,
        _status(place, names),
        lambda away: second_hand_text.show_zones(place, away, names),
    )
    if place.as_json:
        reaching.print_json(data)
    else:
        _show(data, alerts)


async def _status(
    place: Place, wanted: tuple[ZoneName, ...]
) -> tuple[dict[str, object], list[StandingAlert]]:
    async with reaching.opened(place) as cluster, reaching.seen(cluster) as view:
        known = zones_of(view)
        check(wanted, known)
        watch = await elections.leader(cluster.store, elections.zone_watch_votes(cluster))
        alerts = await standing.read(cluster, view, wanted or known)
        data: dict[str, object] = {
            "cluster": str(cluster),
            "instance": cluster.instance,
            "zoneWatch": watch,
            "replicationEnabled": view.replication_enabled,
            "unreadable": list(view.unreadable),
            "collecting": {
                one.alert: one.text for one in alerts if one.alert in held_back.SEVERITIES
            },
            "zones": {
                zone: plain(view.zones.get(zone)) | {"heldBy": _held_by(view, zone)}
                for zone in wanted or known
            },
            "whole": plain(view.cluster_record),
            "notNamed": list(not_named(view)),
            "warnings": [*(one.reason for one in _warnings(view)), *not_named(view).values()],
        }
        return data, alerts


def _held_by(view: View, zone: ZoneName) -> HeldBy | None:
    """Name the predicate of a zone, as `plan` does; this command waits for no evaluation.

    So it does not know whether a zone watch is at work, and says nothing of that.
    """
    held = view.what_holds_zone(zone)
    return None if held is None or held.by is HeldBy.NOT_WATCHED else held.by


def _warnings(view: View) -> tuple[BrokenRule, ...]:
    """Give the zones that cannot be held, with the bookies that are counted now."""
    return ungated.warnings(
        view.policy,
        view.topology,
        written_off=view.written_off,
        in_maintenance=frozenset(view.maintenance),
    )


def not_named(view: View) -> dict[ZoneName, str]:
    """Give each zone that has bookies and that the policy does not name, and what to do."""
    return unnamed.warnings(view.topology, view.policy.placement)


def zones_of(view: View) -> tuple[ZoneName, ...]:
    """Give every zone that the policy, a cookie or a zone record names."""
    return tuple(sorted({*view.policy.placement.zones, *view.topology.zones, *view.zones}))


def check(wanted: Iterable[ZoneName], known: tuple[ZoneName, ...]) -> None:
    """Refuse a zone that is not among the known ones."""
    for zone in wanted:
        if zone not in known:
            raise RefusedCommand(misnamed.there_is_no("zone", zone, known))


def plain(record: Record | None) -> dict[str, object]:
    """Give a record as plain data; for None, data that says that there is no readable record."""
    if record is None:
        return {
            "observation": None,
            "permission": Permission.HELD,
            "reason": "there is no readable record: no zone watch has evaluated it yet",
            "alerts": [],
        }
    gate, count = record.gate, record.evidence
    return {
        "observation": record.observed.state,
        "because": record.observed.reason,
        "since": when(record.observed.since_wall_ms),
        "available": count.available,
        "counted": count.total,
        "notCounted": {
            "draining": count.draining,
            "inMaintenance": count.in_maintenance,
            "writtenOff": count.written_off,
        },
        "permission": gate.permission,
        "reason": gate.reason,
        "setBy": gate.set_by,
        "token": gate.token,
        "heldMs": 0 if gate.permits else gate.held_ms,
        "evaluation": record.evaluation,
        "alerts": [
            {name: value for name, value in one.plain().items() if name != "about"}
            for one in standing.of_record(record)
        ],
    }


def when(wall_ms: int) -> str:
    """Spell a wall-clock time for people, in UTC."""
    return datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="seconds")


def _show(data: dict[str, object], alerts: list[StandingAlert]) -> None:
    table = Table(box=box.SIMPLE)
    for title in ("zone", "state", "bookies", "repair", "held for", "because"):
        table.add_column(title, no_wrap=title != "because")
    rows = data["zones"]
    assert isinstance(rows, dict)
    for name, row in [*rows.items(), (CLUSTER, data["whole"])]:
        table.add_row(*_cells(name, row))
    console = reaching.console()
    console.print(table)
    standing.show(alerts)
    warnings = data["warnings"]
    assert isinstance(warnings, list)
    for text in warnings:
        console.print(f"warning: {text}", style="yellow", markup=False)
    watch: object = data["zoneWatch"]
    on = "on" if data["replicationEnabled"] else "OFF: `zonekeeper autorecovery enable` ends it"
    console.print(f"zone watch: {watch or 'none, so everything is held'}", markup=False)
    console.print(f"automatic replication: {on}", markup=False)
    unreadable = data["unreadable"]
    if isinstance(unreadable, list) and unreadable:
        console.print(f"cannot be read, so it holds: {', '.join(unreadable)}", style="red")


def _planned_away(row: dict[str, object]) -> int:
    """Give how many bookies are not judged because of planned work: so much sight is missing."""
    left_out = row.get("notCounted")
    if not isinstance(left_out, dict):
        return 0
    return int(left_out["draining"]) + int(left_out["inMaintenance"])


def _cells(name: str, row: dict[str, object]) -> tuple[Text, ...]:
    permission = str(row["permission"])
    held_ms = row.get("heldMs", 0)
    assert isinstance(held_ms, int)
    there = f"{row['available']}/{row['counted']}" if "available" in row else "?"
    if planned := _planned_away(row):
        there += f" (+{planned} planned away)"
    held = permission == Permission.HELD
    alerts = row["alerts"]
    assert isinstance(alerts, list)
    worst = [standing.STYLES[Severity(one["severity"])] for one in alerts]
    state = Text(str(row["observation"] or "unknown"), style=next(filter(None, worst), ""))
    return (
        Text(name),
        state,
        Text(there),
        Text(permission, style="yellow" if held else ""),
        Text(counted_time.spelled(held_ms) if held else ""),
        Text(str(row["reason"] if held else row.get("because", row["reason"]))),
    )
