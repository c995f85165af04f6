"""``zonekeeper autorecovery``: run auto-replication, see it, and decide what it may repair."""

import asyncio
import random
from collections.abc import Mapping
from contextlib import aclosing
from typing import Final, TypedDict, Unpack

import click
from rich import box
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.table import Table
from rich.text import Text

from zonekeeper.client.api.client import Client
from zonekeeper.metadata.bookies import order_records
from zonekeeper.metadata.cluster import elections
from zonekeeper.metadata.commands import exits, options
from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.zones.freeze import SwitchPhase
from zonekeeper.placement.zones.gate import Gate, Person, RefusedError, Token
from zonekeeper.placement.zones.losses import Held, HeldBy
from zonekeeper.placement.zones.zone_records import Record
from zonekeeper.replication.decisions.preflight import Preflight
from zonekeeper.replication.gate import permitting, releasing
from zonekeeper.replication.gate.permitting import GateRequest
from zonekeeper.replication.run import process, settings
from zonekeeper.replication.view.view import View
from zonekeeper.shell.commands import zones
from zonekeeper.shell.reaching import connecting, ordering, reaching, second_hand
from zonekeeper.shell.reaching.reaching import Place
from zonekeeper.shell.reports import preflight_text, second_hand_text, standing
from zonekeeper.shell.reports.preflight_text import PreflightSeen
from zonekeeper.shell.reports.standing import StandingAlert
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.running import logs

#: Marked ledgers are counted up to this number.
MARKED_MAX: Final = 100_000

#: The fields of the status that are shown, and their names for people.
_SHOWN: Final = {
    "switch": "automatic replication",
    "auditor": "auditor",
    "zoneWatch": "zone watch",
    "processes": "processes",
    "ledgersMarked": "ledgers that wait",
    "ledgersUnderRepair": "ledgers under repair",
    "zonesHeld": "zones held",
    "clusterHeld": "cluster held",
    "bookiesMissing": "bookies missing",
    "orders": "orders about bookies",
}
#: What it means that a role has no leader.
_NOBODY: Final = {
    "auditor": "none, so no new loss is found",
    "zoneWatch": "none, so everything is held",
}
_FORCE = click.option(
    "--force", is_flag=True, help="Do it even if there may be no room for the copies."
)
_ZONE = click.option("--zone", metavar="ZONE", help="The zone whose losses are meant.")
_WHOLE = click.option("--cluster", "whole", is_flag=True, help="The hold of the whole cluster.")


class _Given(TypedDict):
    """The options of a command that permits repair."""

    who: Person
    force: bool
    yes: bool
    dry_run: bool
    tls: TlsFiles | None
    place: Place


class _GivenZone(_Given):
    """The same options, and those that name a gate."""

    zone: str | None
    whole: bool


@click.group()
def autorecovery() -> None:
    """Repair lost copies: run it, see it, hold it, release it."""


# ── looking ──


@autorecovery.command(epilog="Example: zonekeeper autorecovery status")
@reaching.on_cluster
def status(place: Place) -> None:
    """Show the switch, the leaders, and how many ledgers wait for repair or are being repaired."""
    data, alerts = second_hand.run(
        place, _status(place), lambda away: second_hand_text.show_autorecovery(place, away)
    )
    if place.as_json:
        reaching.print_json({**data, "alerts": [one.plain() for one in alerts]})
        return
    table = Table(box=box.SIMPLE, show_header=False)
    for name, words in _SHOWN.items():
        value = data[name]
        shown = ", ".join(map(str, value)) if isinstance(value, list) else value
        shown = {True: "yes", False: "no"}[shown] if isinstance(shown, bool) else shown
        table.add_row(words, Text(_NOBODY.get(name, "none") if shown in (None, "") else str(shown)))
    reaching.console().print(table)
    standing.show(alerts)


async def _status(place: Place) -> tuple[dict[str, object], list[StandingAlert]]:
    async with reaching.opened(place) as cluster, reaching.seen(cluster) as view:
        store, marked = cluster.store, 0
        async with aclosing(underreplication.ids(cluster)) as ids:
            async for _ in ids:
                marked += 1
                if marked == MARKED_MAX:
                    break
        votes = await store.children(elections.auditor_votes(cluster), sync=True)
        orders = await order_records.read_all(cluster)
        data: dict[str, object] = {
            "switch": "on" if view.replication_enabled else "off",
            "auditor": await elections.leader(store, elections.auditor_votes(cluster)),
            "zoneWatch": await elections.leader(store, elections.zone_watch_votes(cluster)),
            "processes": len(elections.in_order(votes or ())),
            "ledgersMarked": f"{marked} or more" if marked == MARKED_MAX else marked,
            "ledgersUnderRepair": len(await underreplication.held(cluster)),
            "zonesHeld": [zone for zone, one in view.zones.items() if not one.gate.permits],
            "clusterHeld": view.cluster_record is None or not view.cluster_record.gate.permits,
            "bookiesMissing": sorted(view.missing),
            "orders": [f"{bookie}: {ordering.said(one)}" for bookie, one in orders.items()],
        }
        return data, await standing.read(cluster, view)


# ── the switch ──


@autorecovery.command(
    epilog='Example: zonekeeper autorecovery enable --reason "the network is back" --dry-run'
)
@_FORCE
@reaching.by_person_or_dry_run
@reaching.YES
@connecting.over_tls
@reaching.on_cluster
def enable(**given: Unpack[_Given]) -> None:
    """Switch automatic replication on.

    After that, losses in zones that are not held are repaired, so the command first shows what the
    repair costs, as `release` does. If the zone watch threw the switch (scope: cluster), the
    command also releases the holds that the zone watch set. Otherwise a zone that is held stays
    held. Apache's `bookkeeper shell autorecovery -enable` throws the same switch.
    """
    place = given["place"]
    looked = reaching.run(_look_at_switch(place, given["tls"]))
    if looked.preflight.bookies:
        _decide(looked, given)
    if given["dry_run"]:
        _answer(
            place,
            "automatic replication would be switched on",
            preflight_text.plain(looked, done=False),
        )
        return
    changed = reaching.run(_switch(place, given["who"], enabled=True))
    was = "is" if changed else "was already"
    _answer(place, f"automatic replication {was} on", preflight_text.plain(looked, done=changed))


@autorecovery.command(
    epilog='Example: zonekeeper autorecovery disable --reason "the network is moved"'
)
@reaching.by_person_or_dry_run
@reaching.YES
@reaching.on_cluster
def disable(who: Person, yes: bool, dry_run: bool, place: Place) -> None:
    """Switch all automatic replication off, for every zone, until a person switches it on.

    `hold` is for one zone. Apache's `bookkeeper shell autorecovery -disable` throws this switch,
    too.
    """
    if dry_run:
        _answer(place, "all automatic replication would be switched off", {"done": False})
        return
    reaching.confirm(
        "Nothing will be repaired until automatic replication is enabled again. Go on?", yes=yes
    )
    changed = reaching.run(_switch(place, who, enabled=False))
    was = "is" if changed else "was already"
    _answer(place, f"automatic replication {was} off", {"done": changed})


async def _look_at_switch(place: Place, tls: TlsFiles | None) -> PreflightSeen:
    async with connecting.connected(place, tls) as client, reaching.seen(client.cluster) as view:
        gates, lost = _let_go(view)
        counted = await _measured(client, view, lost)
        what = "switching automatic replication on"
        return PreflightSeen(what=what, gates=gates, preflight=counted)


def _let_go(view: View) -> tuple[tuple[Gate, ...], frozenset[BookieId]]:
    """Give the gates that the switch opens, and the lost bookies whose repair it starts.

    After the zone watch threw the switch, switching on opens all held gates but those that a person
    holds. After a person threw it, switching on opens no gate.
    """
    whole = view.cluster_record
    if whole is None or view.replication_enabled:
        return (), frozenset()
    thrown = whole.switch.phase is SwitchPhase.OFF

    def stays(gate: Gate) -> bool:
        return not gate.permits and (not thrown or gate.held_by is not None)

    gates = [one.gate for one in view.zones.values()] + [whole.gate]
    opened = tuple(gate for gate in gates if not gate.permits and not stays(gate))
    if stays(whole.gate):
        return opened, frozenset()
    free = {zone for zone, one in view.zones.items() if not stays(one.gate)}
    everywhere = free >= {*view.zones, *view.policy.placement.zones}
    return opened, frozenset(
        bookie
        for bookie in releasing.held_losses(view, None)
        if (everywhere if (where := view.missing[bookie]) is None else where.zone in free)
    )


async def _switch(place: Place, who: Person, *, enabled: bool) -> bool:
    async with reaching.opened(place) as cluster:
        told = reaching.chronicle(cluster, who.name)
        return await permitting.switch(cluster, who, told, enabled=enabled)


# ── a gate ──


@autorecovery.command(
    epilog='Example: zonekeeper autorecovery hold --zone b --reason "it comes back tonight"'
)
@_ZONE
@_WHOLE
@reaching.by_person
@reaching.on_cluster
def hold(zone: str | None, whole: bool, who: Person, place: Place) -> None:
    """Hold the losses of a zone, or of the whole cluster, until a person releases them."""
    gate = _gate(zone, whole)
    record = reaching.run(_hold(place, gate, who))
    _answer(place, f"{_named(gate)} is held: {record.gate.reason}", zones.plain(record))


@autorecovery.command(
    epilog='Example: zonekeeper autorecovery release --zone b --reason "the site is gone" --dry-run'
)
@_ZONE
@_WHOLE
@_FORCE
@reaching.by_person_or_dry_run
@reaching.YES
@connecting.over_tls
@reaching.on_cluster
def release(**given: Unpack[_GivenZone]) -> None:
    """Let the losses of a zone be repaired now, although the zone is not back.

    First the command shows what the repair costs: ledgers, bytes, bytes between zones, room, time.
    Without room, or if the room is unknown, it refuses without --force. The release lasts until the
    zone is up again.
    """
    place, gate = given["place"], _gate(given["zone"], given["whole"])
    looked = reaching.run(_look_at_gate(place, given["tls"], gate))
    _decide(looked, given)
    if given["dry_run"]:
        _answer(place, "nothing was released", preflight_text.plain(looked, done=False))
        return
    (seen,) = looked.gates
    record, held = reaching.run(_release(place, gate, seen.token, given["who"]))
    text = f"{_named(gate)}: {record.gate.permission}, {record.gate.reason}"
    if held is not None:
        text += f"\nnothing is repaired yet: {held.text}"
    still = {"stillHeld": None if held is None else held.text}
    _answer(place, text, {**preflight_text.plain(looked, done=True), **still})


async def _look_at_gate(place: Place, tls: TlsFiles | None, zone: ZoneName | None) -> PreflightSeen:
    async with connecting.connected(place, tls) as client, reaching.seen(client.cluster) as view:
        record = _record(view, zone)
        if record.gate.permits:
            raise RefusedError(
                f"nothing of {_named(zone)} is held: {record.gate.permission} since "
                f"{record.gate.set_by} set it ({record.gate.reason})"
            )
        counted = await _measured(client, view, releasing.held_losses(view, zone))
        what = f"releasing {_named(zone)}"
        return PreflightSeen(what=what, gates=(record.gate,), preflight=counted)


def _record(view: View, zone: ZoneName | None) -> Record:
    if zone is not None:
        zones.check([zone], zones.zones_of(view))
    record = view.cluster_record if zone is None else view.zones.get(zone)
    if record is None:
        raise RefusedError(
            f"there is no readable record of {_named(zone)}: no zone watch has evaluated it, so "
            "everything there is held; start an autorecovery process, or wait for its zone watch"
        )
    return record


async def _release(
    place: Place, zone: ZoneName | None, token: Token | None, who: Person
) -> tuple[Record, Held | None]:
    """Release a gate; give its record, and the reason why its losses are still held, if any."""
    async with reaching.opened(place) as cluster, reaching.seen(cluster) as view:
        request = GateRequest(zone=zone, person=who, wall_ms=reaching.wall_ms())
        told = reaching.chronicle(cluster, who.name)
        record = await permitting.release(cluster, request, token, view.policy, told)
        held = view.what_holds(None) if zone is None else view.what_holds_zone(zone)
        # The view may be older than the release. These two holds do not depend on it.
        stands = held is not None and (
            held.by is HeldBy.REPLICATION_DISABLED
            or (held.by is HeldBy.CLUSTER_HELD and zone is not None)
        )
        return record, held if stands else None


async def _hold(place: Place, zone: ZoneName | None, who: Person) -> Record:
    async with reaching.opened(place) as cluster, reaching.seen(cluster) as view:
        _record(view, zone)
        request = GateRequest(zone=zone, person=who, wall_ms=reaching.wall_ms())
        told = reaching.chronicle(cluster, who.name)
        return await permitting.hold(cluster, request, view.policy, told)


def _gate(zone: str | None, whole: bool) -> ZoneName | None:
    if (zone is None) is not whole:
        raise RefusedCommand("name one hold: give either --zone ZONE or --cluster")
    return None if zone is None else ZoneName(zone)


def _named(zone: ZoneName | None) -> str:
    return "the cluster" if zone is None else f"zone {zone}"


# ── the preflight ──


async def _measured(client: Client, view: View, lost: frozenset[BookieId]) -> Preflight:
    """Count what a repair would do, and show progress."""
    columns = (SpinnerColumn(), TextColumn("{task.completed} ledgers looked at"))
    console = reaching.console(stderr=True)
    quiet = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=quiet) as progress:
        bar = progress.add_task("", total=None)
        return await releasing.measure(
            client, view, lost, lambda number: progress.update(bar, completed=number)
        )


def _decide(looked: PreflightSeen, given: _Given) -> None:
    """Show what the command will do; refuse it, or ask."""
    if not given["place"].as_json:
        preflight_text.show(looked)
    refusal = looked.preflight.refusal
    if refusal is not None and not given["force"]:
        raise RefusedCommand(f"refused, {refusal}; --force does it nevertheless")
    if not given["dry_run"]:
        reaching.confirm("Go on?", yes=given["yes"])


def _answer(place: Place, text: str, data: Mapping[str, object]) -> None:
    if place.as_json:
        reaching.print_json(data)
    else:
        click.echo(text)


# ── the process ──


@autorecovery.command(
    epilog="Example: zonekeeper autorecovery run --metadata zk://zk-0:2181/ledgers --zone a"
)
@options.CONFIG
@options.each_of(settings.SETTINGS)
def run(config: str | None, **flags: str | None) -> None:
    """Run auditor, replicator and a stand-in zone watch until SIGTERM; any number of copies.

    It prints one line when it is ready, and exits with 0 when it was stopped in order. What is
    repaired, when and how fast is the cluster's policy.
    """
    checked = options.given(settings.parse, flags, config)
    logs.set_up(checked.logging, {"process": "autorecovery", "name": checked.name})
    with exits.reported():
        asyncio.run(process.run(checked, random.SystemRandom(), click.echo))
