"""``zonekeeper bookies``: the bookies that there are, their states, and orders about one."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TypedDict, Unpack

import click
from rich import box
from rich.table import Table
from rich.text import Text

from zonekeeper.metadata.bookies import bookie_records, bookie_watch, cookie_store, registration
from zonekeeper.metadata.bookies.bookie_records import BookieRecord, Mark
from zonekeeper.metadata.bookies.restrictions import Restriction
from zonekeeper.metadata.commands import opening, options
from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.placement.base import misnamed
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.topology import Bookie, Registration
from zonekeeper.placement.policy import unnamed
from zonekeeper.placement.zones.gate import Person
from zonekeeper.replication.orders import decommissioning, emptying, recovering
from zonekeeper.replication.orders.orders import NotEmptiedError, Order, OrderProgress, Phase
from zonekeeper.replication.repair.repairing import Repairer
from zonekeeper.replication.view.alerts import Chronicle
from zonekeeper.replication.view.view import View
from zonekeeper.shell.reaching import (
    connecting,
    evaluating,
    progressing,
    reaching,
    restricting,
    second_hand,
)
from zonekeeper.shell.reaching.progressing import Progress
from zonekeeper.shell.reaching.reaching import Place
from zonekeeper.shell.reports import preflight_text, second_hand_text, standing
from zonekeeper.shell.reports.standing import StandingAlert
from zonekeeper.wire.contract.service import BookieState
from zonekeeper.wire.formats import errors
from zonekeeper.wire.grpc.tls import TlsFiles

_BOOKIE = click.argument("bookie", metavar="BOOKIE")

_Check = Callable[[Repairer, BookieId], Awaitable[None]]
_Carry = Callable[[Repairer, Order], Awaitable[None]]


class _Given(TypedDict):
    """The options of an order to a bookie."""

    dry_run: bool
    yes: bool
    tls: TlsFiles | None
    who: Person
    place: Place


@click.group()
def bookies() -> None:
    """See the storage servers, empty one, recover one."""


@bookies.command(name="list", epilog="Example: zonekeeper bookies list --output json")
@evaluating.WAIT
@reaching.on_cluster
def list_command(wait: bool, place: Place) -> None:
    """List every bookie that has a cookie or is registered."""
    rows, alerts = second_hand.run(
        place, _list(place, wait=wait), lambda away: second_hand_text.show_bookies(place, away)
    )
    if place.as_json:
        reaching.print_json(rows)
        return
    table = Table(box=box.SIMPLE)
    for title in ("bookie", "zone", "upgrade domain", "state", "free", "what is said of it"):
        table.add_column(title)
    for row in rows:
        where = (row["zone"] or "?", row["upgradeDomain"] or "?")
        cells = (row["bookie"], *where, row["state"], _free(row))
        table.add_row(*(Text(str(cell)) for cell in cells), Text(_remarks(row)))
    reaching.console().print(table)
    standing.show(alerts)


@bookies.command(epilog="Example: zonekeeper bookies show bk-b-0")
@_BOOKIE
@evaluating.WAIT
@connecting.over_tls
@reaching.on_cluster
def show(bookie: str, wait: bool, tls: TlsFiles | None, place: Place) -> None:
    """Show all that is known of one bookie, and what it says of itself if it answers."""
    data, alerts = second_hand.run(
        place,
        _show(place, tls, BookieId(bookie), wait=wait),
        lambda away: second_hand_text.show_bookie(place, away, BookieId(bookie)),
    )
    if place.as_json:
        reaching.print_json({**data, "alerts": [one.plain() for one in alerts]})
        return
    for name, value in _lines(data):
        click.echo(f"{name + ':':<13} {value}")
    standing.show(alerts)


@bookies.command(epilog='Example: zonekeeper bookies readonly bk-b-0 --reason "its disk is slow"')
@_BOOKIE
@click.option("--off", is_flag=True, help="Take writes again.")
@reaching.YES
@connecting.over_tls
@reaching.by_person_or_dry_run
@reaching.on_cluster
def readonly(bookie: str, off: bool, **given: Unpack[_Given]) -> None:
    """Make a bookie read-only until --off, also over restarts; it goes on to serve reads."""
    place, dry_run = given["place"], given["dry_run"]
    wanted = "take writes again" if off else "refuse new data, and serve reads"
    reaching.run(_known(place, BookieId(bookie), must_be_there=True))
    if not dry_run:
        reaching.confirm(f"Have {bookie} {wanted}?", yes=given["yes"])
        told = _set_read_only(
            place, given["tls"], BookieId(bookie), given["who"], read_only=not off
        )
        reaching.run(told)
    if place.as_json:
        reaching.print_json({"bookie": bookie, "readOnly": not off, "done": not dry_run})
    else:
        click.echo(f"{bookie} {'would' if dry_run else 'was told to'} {wanted}")


@bookies.command(
    epilog='Example: zonekeeper bookies decommission bk-b-0 --reason "its disk is old"'
)
@_BOOKIE
@reaching.YES
@options.QUIET
@connecting.over_tls
@reaching.by_person_or_dry_run
@reaching.on_cluster
def decommission(  # noqa: PLR0913 each is an option of the command
    *,
    bookie: str,
    dry_run: bool,
    yes: bool,
    quiet: bool,
    tls: TlsFiles | None,
    who: Person,
    place: Place,
) -> None:
    """Empty a bookie that is there, wait until it is stopped, and forget it.

    Its ledgers are copied elsewhere first, and its cookie is deleted last. If the command is
    interrupted, give it again: it goes on where it stopped.
    """
    order = _Ordered(place, tls, BookieId(bookie), who, dry_run=dry_run, yes=yes, quiet=quiet)
    order.give(decommissioning.check, decommissioning.decommission, "emptied and forgotten")


@bookies.command(
    epilog='Example: zonekeeper bookies recover bk-b-0 --reason "its disk is lost" --dry-run'
)
@_BOOKIE
@reaching.YES
@options.QUIET
@connecting.over_tls
@reaching.by_person_or_dry_run
@reaching.on_cluster
def recover(  # noqa: PLR0913 each is an option of the command
    *,
    bookie: str,
    dry_run: bool,
    yes: bool,
    quiet: bool,
    tls: TlsFiles | None,
    who: Person,
    place: Place,
) -> None:
    """Copy elsewhere, now, everything that a bookie held which is lost for good.

    The command obeys the gate: while the bookie's zone is held it waits, and says so.
    """
    order = _Ordered(place, tls, BookieId(bookie), who, dry_run=dry_run, yes=yes, quiet=quiet)
    order.give(recovering.check, recovering.recover, "recovered elsewhere")


class _Ordered:
    """A long order about one bookie: it is checked, confirmed, and carried out with progress."""

    def __init__(  # noqa: PLR0913 each is an option of the commands
        self,
        place: Place,
        tls: TlsFiles | None,
        bookie: BookieId,
        who: Person,
        *,
        dry_run: bool,
        yes: bool,
        quiet: bool,
    ) -> None:
        self._place, self._tls, self._bookie, self._who = place, tls, bookie, who
        self._dry_run, self._yes, self._quiet = dry_run, yes, quiet

    def give(self, check: _Check, carry: _Carry, done: str) -> None:
        """Give the order; nothing is changed before the check and the user's consent."""
        named = reaching.run(self._named(check))
        count = f"{named} ledgers name {self._bookie}"
        if self._dry_run:
            self._answer({"ledgers": named, "done": False}, f"{count}; it would be {done}")
            return
        reaching.confirm(f"{count}. Shall it be {done}?", yes=self._yes)
        try:
            reaching.run(self._carried_out(carry))
        except NotEmptiedError as error:
            raise click.ClickException(str(error)) from None
        self._answer({"ledgers": named, "done": True}, f"{self._bookie} is {done}")

    async def _named(self, check: _Check) -> int:
        async with _repairing(self._place, self._tls) as repairer:
            _refuse_unknown(repairer.view, self._bookie)
            await check(repairer, self._bookie)
            return len(await emptying.naming(repairer.cluster, self._bookie))

    async def _carried_out(self, carry: _Carry) -> None:
        async with progressing.shown(quiet=self._quiet) as shown:
            order = Order(
                bookie=self._bookie,
                by=self._who.name,
                reason=self._who.reason,
                wall_ms=reaching.wall_ms,
                report=partial(_report, shown, set()),
            )
            async with _repairing(self._place, self._tls) as repairer:
                await carry(repairer, order)

    def _answer(self, data: dict[str, object], text: str) -> None:
        if self._place.as_json:
            reaching.print_json({"bookie": self._bookie, **data})
        else:
            click.echo(text)


def _report(shown: Progress, phases: set[Phase], progress: OrderProgress) -> None:
    """Show how far an order is: a new phase and what holds at once, how much now and then."""
    text = str(progress.phase)
    if progress.phase is Phase.HELD and progress.held is not None:
        shown.tell_at_once(f"{text}: {progress.held.by}: {progress.held.text}")
        return
    if progress.phase is Phase.COPYING:
        total = progress.done + progress.left
        moved = progress.bytes_moved
        done = progressing.work(
            "ledgers", progress.done, shown.elapsed_s, total=total, moved_bytes=moved
        )
        text += f": {done}"
    for trouble, count in sorted(progress.troubles.items()):
        text += f"; {count} x {trouble}"
    if progress.phase in phases:
        shown.tell(text)
    else:
        phases.add(progress.phase)
        shown.tell_at_once(text)


@asynccontextmanager
async def _repairing(place: Place, tls: TlsFiles | None) -> AsyncIterator[Repairer]:
    """Give a repairer of ledgers, with a random name for this process."""
    chance = random.SystemRandom()
    name = BookieId(f"shell-{chance.randrange(1 << 32):08x}")
    async with (
        connecting.connected(place, tls, lasting=True) as client,
        reaching.seen(client.cluster) as view,
    ):
        yield Repairer(client, view, name=name, chance=chance)


async def _list(place: Place, *, wait: bool) -> tuple[list[dict[str, object]], list[StandingAlert]]:
    async with reaching.opened(place) as cluster, reaching.seen(cluster) as view:
        if wait:
            async with opening.attended(cluster.store):
                await evaluating.what_holds_bookies(view)
        found = await restricting.read(cluster, view.topology)
        rows = [_row(one, found.get(one.id, ()), view) for one in view.topology]
        return rows, await standing.read(cluster, view)


def _row(bookie: Bookie, found: Sequence[Restriction], view: View) -> dict[str, object]:
    where, record = bookie.location, view.bookie_records.get(bookie.id) or BookieRecord()
    rules = view.policy.placement
    holds = view.what_holds_bookie(bookie.id)
    return {
        "bookie": bookie.id,
        "zone": None if where is None else where.zone,
        "upgradeDomain": None if where is None else where.upgrade_domain,
        "state": bookie.registration.value,
        "zoneNamed": None if where is None else not unnamed.is_unnamed(where, rules),
        "freeBytes": bookie.free_bytes,
        "totalBytes": bookie.total_bytes,
        "draining": _mark(record.draining),
        "restrictions": [one.plain() for one in found],
        "restrictedBy": list(map(str, found)),
        "writtenOff": _mark(record.written_off),
        "lostData": record.lost_data is not None,
        "repairHeldBy": None if holds is None else {"by": holds.by, "text": holds.text},
    }


def _free(row: dict[str, object]) -> str:
    """Spell the room that a bookie published last."""
    free, total = row["freeBytes"], row["totalBytes"]
    if isinstance(free, int) and isinstance(total, int):
        return f"{preflight_text.spelled_size(free)} of {preflight_text.spelled_size(total)}"
    return "?"


def _mark(mark: Mark | None) -> dict[str, object] | None:
    return None if mark is None else {"by": mark.by, "reason": mark.reason, "atMs": mark.at_ms}


def _lines(data: dict[str, object]) -> Iterator[tuple[str, str]]:
    """Give the facts about a bookie for people: pairs of a name and a value."""
    folders, says, boots = data["ledgerDirectories"], data["says"], data["boots"]
    yield "bookie", str(data["bookie"])
    yield "stands in", f"zone {data['zone'] or '?'}, upgrade domain {data['upgradeDomain'] or '?'}"
    yield "registered", f"{data['state']}"
    yield "said of it", _remarks(data) or "nothing"
    yield "address", str(data["address"] or "none")
    yield "directories", ", ".join(map(str, folders)) if isinstance(folders, list) else "not known"
    yield "starts", str(boots or "not known")
    if not isinstance(says, dict):
        yield "answers", f"no: {data['doesNotAnswer']}"
        return
    yield "answers", f"{says['state']}, version {says['version']}, start {says['bootEpoch']}"
    free, total = (preflight_text.spelled_size(says[name]) for name in ("freeBytes", "totalBytes"))
    yield "disk", f"{free} free of {total}"


def _remarks(row: dict[str, object]) -> str:
    remarks = []
    if isinstance(found := row["restrictedBy"], list):
        remarks += found
    if isinstance(mark := row["writtenOff"], dict):
        remarks.append(f"written off (by {mark['by']}: {mark['reason']})")
    if row["zoneNamed"] is False:
        remarks.append(f"gets no ledgers: the policy does not name zone {row['zone']}")
    if row["lostData"]:
        remarks.append("lost data, and is being filled in")
    if isinstance(held := row["repairHeldBy"], dict):
        remarks.append(f"repair held by {held['by']}")
    return "; ".join(remarks)


async def _show(
    place: Place, tls: TlsFiles | None, bookie: BookieId, *, wait: bool
) -> tuple[dict[str, object], list[StandingAlert]]:
    async with connecting.connected(place, tls) as client, reaching.seen(client.cluster) as view:
        _refuse_unknown(view, bookie)
        if wait and view.what_holds_bookie(bookie) is not None:
            async with opening.attended(client.cluster.store):
                await evaluating.what_holds_bookies(view)
        known = view.topology.get(bookie)
        assert known is not None, "an unknown one is refused"
        cluster = client.cluster
        cookie = await cookie_store.read(cluster, bookie)
        info = await registration.read_service_info(cluster, bookie)
        said: dict[str, object] | None = None
        try:
            told = await (await client.bookies.pool.link(bookie)).info()
        except errors.ProtocolError as error:
            trouble: str | None = str(error)
        else:
            trouble = None
            said = {
                "state": told.state.value,
                "version": told.version,
                "bootEpoch": told.boot_epoch,
                "totalBytes": told.total_bytes,
                "freeBytes": told.free_bytes,
            }
        endpoint = None if info is None or info.bookie is None else info.bookie
        found = (await restricting.read(cluster, [known])).get(bookie, ())
        zone = None if known.location is None else known.location.zone
        data = {
            **_row(known, found, view),
            "address": None if endpoint is None else f"{endpoint.host}:{endpoint.port}",
            "ledgerDirectories": None if cookie is None else list(cookie.cookie.ledger_dirs),
            "boots": (await bookie_records.read(cluster, bookie)).boot_epoch,
            "says": said,
            "doesNotAnswer": trouble,
        }
        return data, await standing.read(cluster, view, [] if zone is None else [zone])


async def _known(place: Place, bookie: BookieId, *, must_be_there: bool) -> None:
    async with reaching.opened(place) as cluster, reaching.seen(cluster) as view:
        _refuse_unknown(view, bookie)
        known = view.topology.get(bookie)
        if must_be_there and (known is None or not known.readable):
            raise RefusedCommand(
                f"{bookie} is not registered, so it cannot be told: start it, and try again"
            )


def _refuse_unknown(view: View, bookie: BookieId) -> None:
    if bookie not in view.topology:
        known = [one.id for one in view.topology]
        raise RefusedCommand(misnamed.there_is_no("bookie", bookie, known))


async def _set_read_only(
    place: Place, tls: TlsFiles | None, bookie: BookieId, who: Person, *, read_only: bool
) -> None:
    """Tell a bookie, and note who did: before it is read-only, and after it is not any more."""
    async with connecting.connected(place, tls) as client:
        cluster = client.cluster
        mark = Mark(at_ms=reaching.wall_ms(), by=who.name, reason=who.reason)
        before: Mark | None = None
        if read_only:
            # A note of a bookie that takes writes is left over from an order of an older program.
            registered = (await bookie_watch.registrations(cluster)).get(bookie)
            stands = registered is Registration.READ_ONLY
            before = await bookie_records.order_read_only(cluster, bookie, mark, keep=stands)
        try:
            link = await client.bookies.pool.link(bookie)
            await link.set_read_only(read_only=read_only)
            still = (await link.info()).state is not BookieState.WRITABLE
        except errors.ProtocolError as error:
            if read_only and not error.maybe_applied:
                await bookie_records.order_read_only(cluster, bookie, before)
            raise click.ClickException(f"{bookie}: {error}") from None
        if not read_only:
            await bookie_records.order_read_only(cluster, bookie, None)
        await _tell(reaching.chronicle(cluster, who.name), bookie, who, read_only, still)


async def _tell(
    told: Chronicle, bookie: BookieId, who: Person, ordered: bool, read_only: bool
) -> None:
    """Write an order into the timeline, and how the bookie is after it."""
    reason = who.reason
    if read_only and not ordered:
        reason = f"the order is over ({reason}); it is read-only still for conditions of its own"
    await told.write("read-only" if read_only else "writable", f"bookie {bookie}", reason)
