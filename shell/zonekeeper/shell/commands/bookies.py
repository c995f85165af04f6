"""``zonekeeper bookies``: the bookies that there are, their states, and orders about one."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import TypedDict, Unpack

import click
from rich import box
from rich.table import Table
from rich.text import Text

from zonekeeper.metadata.bookies import (
    bookie_records,
    bookie_watch,
    cookie_store,
    order_records,
    registration,
)
from zonekeeper.metadata.bookies.bookie_records import BookieRecord, Mark
from zonekeeper.metadata.bookies.restrictions import Restriction
from zonekeeper.metadata.commands import opening, options
from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.placement.base import misnamed
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.topology import Bookie, Registration
from zonekeeper.placement.policy import unnamed
from zonekeeper.placement.zones.bookie_orders import BookieOrder, OrderKind, OrderWord
from zonekeeper.placement.zones.gate import Person
from zonekeeper.replication.orders import giving
from zonekeeper.replication.orders.giving import AskedOrder
from zonekeeper.replication.view.alerts import Chronicle
from zonekeeper.replication.view.view import View
from zonekeeper.shell.reaching import (
    connecting,
    evaluating,
    ordering,
    progressing,
    reaching,
    restricting,
    second_hand,
)
from zonekeeper.shell.reaching.ordering import Following
from zonekeeper.shell.reaching.reaching import Place
from zonekeeper.shell.reports import preflight_text, second_hand_text, standing
from zonekeeper.shell.reports.standing import StandingAlert
from zonekeeper.wire.contract.service import BookieState
from zonekeeper.wire.formats import errors
from zonekeeper.wire.grpc.tls import TlsFiles

_BOOKIE = click.argument("bookie", metavar="BOOKIE")


class _Given(TypedDict):
    """The options of an order to a bookie."""

    dry_run: bool
    yes: bool
    tls: TlsFiles | None
    who: Person
    place: Place


class _GivenOrder(_Given):
    """The options of an order that takes long."""

    quiet: bool
    here: bool
    no_follow: bool


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
        files=connecting.page_files(tls),
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


def _giving_an_order(command: Callable[..., None]) -> Callable[..., None]:
    """Add the bookie, and every option of a command that gives an order about it."""
    for each in (
        reaching.on_cluster,
        reaching.by_person_or_dry_run,
        connecting.over_tls,
        ordering.NO_FOLLOW,
        ordering.HERE,
        options.QUIET,
        reaching.YES,
        _BOOKIE,
    ):
        command = each(command)
    return command


@bookies.command(
    epilog='Example: zonekeeper bookies decommission bk-b-0 --reason "its disk is old"'
)
@_giving_an_order
def decommission(bookie: str, **given: Unpack[_GivenOrder]) -> None:
    """Empty a bookie that is there, wait until it is stopped, and forget it.

    Its ledgers are copied elsewhere first, and its cookie is deleted last. The order is carried out
    by the autorecovery processes; an interruption ends only the waiting. Give the command again to
    wait on.
    """
    _Ordered(OrderKind.REMOVE, BookieId(bookie), given).give("emptied and forgotten")


@bookies.command(epilog='Example: zonekeeper bookies drain bk-b-0 --reason "its rack is moved"')
@_giving_an_order
def drain(bookie: str, **given: Unpack[_GivenOrder]) -> None:
    """Empty a bookie that is there, and keep it: it gets no new data until take-back.

    The order is carried out as that of decommission.
    """
    _Ordered(OrderKind.DRAIN, BookieId(bookie), given).give("emptied")


@bookies.command(
    epilog='Example: zonekeeper bookies recover bk-b-0 --reason "its disk is lost" --dry-run'
)
@_giving_an_order
def recover(bookie: str, **given: Unpack[_GivenOrder]) -> None:
    """Copy elsewhere, now, everything that a bookie held which is lost for good.

    The order obeys the gate: while the bookie's zone is held it waits, and says so. It is carried
    out as that of decommission.
    """
    _Ordered(OrderKind.RECOVER, BookieId(bookie), given).give("recovered elsewhere")


@bookies.command(
    "take-back", epilog='Example: zonekeeper bookies take-back bk-b-0 --reason "it stays"'
)
@_BOOKIE
@options.QUIET
@ordering.HERE
@connecting.over_tls
@reaching.by_person
@reaching.on_cluster
def take_back(
    *, bookie: str, quiet: bool, here: bool, tls: TlsFiles | None, who: Person, place: Place
) -> None:
    """Take back the order about a bookie: it gets new data again.

    What was copied stays copied. If the order made the bookie read-only, the bookie is made
    writable again.
    """
    over = reaching.run(_taken_back(place, tls, BookieId(bookie), who, quiet=quiet, here=here))
    if place.as_json:
        reaching.print_json({"bookie": bookie, "takenBack": True, "over": over})
    elif over:
        click.echo(f"the order about {bookie} is taken back")
    else:
        click.echo(
            f"the order about {bookie} is taken back; the bookie is writable again once an "
            "autorecovery process runs, or with --here"
        )


async def _taken_back(
    place: Place, tls: TlsFiles | None, bookie: BookieId, who: Person, *, quiet: bool, here: bool
) -> bool:
    """Take an order back; False: nobody is there who makes the bookie writable."""
    word = OrderWord(at_ms=reaching.wall_ms(), by=who.name, reason=who.reason)
    async with (
        connecting.connected(place, tls, lasting=True) as client,
        progressing.shown(quiet=quiet) as shown,
    ):
        cluster = client.cluster
        standing = await giving.take_back(cluster, bookie, word)
        if standing is None:
            raise RefusedCommand(f"there is no order about {bookie} in {cluster}")
        following = Following(cluster, bookie, standing, shown)
        if here:
            async with ordering.carrying(place, tls, bookie):
                await following.until_gone()
        elif await ordering.is_worked(cluster):
            await following.until_gone()
        else:
            return False
        return True


class _Ordered:
    """An order about one bookie: it is checked, confirmed, given and followed."""

    def __init__(self, kind: OrderKind, bookie: BookieId, given: _GivenOrder) -> None:
        who, self._place = given["who"], given["place"]
        self._bookie, self._given = bookie, given
        self._who = who
        word = OrderWord(at_ms=reaching.wall_ms(), by=who.name, reason=who.reason)
        self._asked = AskedOrder(kind=kind, bookie=bookie, word=word)

    def give(self, done: str) -> None:
        """Give the order; nothing is changed before the checks and the user's consent."""
        named = reaching.run(self._checked())
        count = f"{named} ledgers name {self._bookie}"
        if self._given["dry_run"]:
            self._answer({"ledgers": named, "done": False}, f"{count}; it would be {done}")
            return
        reaching.confirm(f"{count}. Shall it be {done}?", yes=self._given["yes"])
        if reaching.run(self._carried_out()):
            self._answer({"ledgers": named, "done": True}, f"{self._bookie} is {done}")
        else:
            text = f"the order about {self._bookie} is given: it will be {done}"
            self._answer({"ledgers": named, "done": False}, text)

    async def _checked(self) -> int:
        async with reaching.opened(self._place) as cluster, reaching.seen(cluster) as view:
            _refuse_unknown(view, self._bookie)
            found = await giving.check(cluster, view, random.SystemRandom(), self._asked)
            if not self._given["dry_run"]:
                await ordering.refuse_unworked(cluster, here=self._given["here"])
            return found

    async def _carried_out(self) -> bool:
        """Write the order, and follow it; False: it is not to be followed."""
        place, tls, here = self._place, self._given["tls"], self._given["here"]
        async with (
            connecting.connected(place, tls, lasting=True) as client,
            progressing.shown(quiet=self._given["quiet"]) as shown,
        ):
            cluster = client.cluster
            told = reaching.chronicle(cluster, self._who.name)
            token = giving.drawn_token(random.SystemRandom())
            order = await giving.give(cluster, self._asked, token, told)
            following = Following(cluster, self._bookie, order, shown)
            if here:
                async with ordering.carrying(place, tls, self._bookie):
                    await following.until_done()
            elif self._given["no_follow"]:
                return False
            else:
                await following.until_done()
            return True

    def _answer(self, data: dict[str, object], text: str) -> None:
        if self._place.as_json:
            reaching.print_json({"bookie": self._bookie, **data})
        else:
            click.echo(text)


async def _list(place: Place, *, wait: bool) -> tuple[list[dict[str, object]], list[StandingAlert]]:
    async with reaching.opened(place) as cluster, reaching.seen(cluster) as view:
        if wait:
            async with opening.attended(cluster.store):
                await evaluating.what_holds_bookies(view)
        found = await restricting.read(cluster, view.topology)
        orders = await order_records.read_all(cluster)
        rows = [_row(one, found.get(one.id, ()), view, orders.get(one.id)) for one in view.topology]
        return rows, await standing.read(cluster, view)


def _row(
    bookie: Bookie,
    found: Sequence[Restriction],
    view: View,
    order: BookieOrder | UnreadableError | None,
) -> dict[str, object]:
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
        "order": ordering.plain(order),
        "ordered": None if order is None else ordering.said(order),
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
    if row.get("ordered"):
        remarks.append(str(row["ordered"]))
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
            **_row(known, found, view, (await order_records.read_all(cluster)).get(bookie)),
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
