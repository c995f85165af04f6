"""``zonekeeper top``: latency, pending work and errors by bookie and zone, as they are now.

The command reads each bookie's ``/metrics`` page again and again. It shows the difference between
the last two readings. Latency is measured in the bookie, from taking a request to telling its
outcome: the disk is included, the network is not. So a slow bookie is known by name.

Exit code 2: the request is wrong; 1: the command failed.
"""

import asyncio
import math
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

import click
from rich import box
from rich.live import Live
from rich.table import Table
from rich.text import Text

from zonekeeper.client.api.client import Client
from zonekeeper.metadata.bookies import registration, restrictions
from zonekeeper.metadata.bookies.restrictions import Restriction
from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.base import misnamed
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.topology import Bookie, Registration
from zonekeeper.shell.reaching import (
    connecting,
    endpoints,
    over_http,
    reaching,
    restricting,
    second_hand,
    sights,
)
from zonekeeper.shell.reaching.over_http import HttpLimits
from zonekeeper.shell.reaching.reaching import Place
from zonekeeper.shell.reaching.restricting import Restrictions
from zonekeeper.shell.reaching.second_hand import SecondHand
from zonekeeper.shell.reaching.sights import Answering, FetchedPage, HttpSight
from zonekeeper.shell.reports import second_hand_text, top_metrics, top_rows
from zonekeeper.shell.reports.top_metrics import Look, NotMetricsError
from zonekeeper.shell.reports.top_rows import (
    APPEND,
    MEDIAN,
    NEARLY_ALL,
    READ,
    SampledBookie,
    TopRow,
)
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.running import seam
from zonekeeper.wire.running.page_asking import PageFiles
from zonekeeper.wire.running.page_identity import ProcessKind

_LIMITS: Final = HttpLimits(page_ms=2_000)
#: This many bookies are read at the same time.
_AT_ONCE: Final = 16
_KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class _Sight:
    """A reading of a bookie's metrics and its time, or the reason why there is none."""

    at_s: float
    look: Look | str
    #: What the store says that keeps it from new data.
    restrictions: tuple[Restriction, ...] = ()


def _a_number(_ctx: click.Context, _param: click.Parameter, value: float) -> float:
    """Refuse NaN, which the check of the bounds lets pass."""
    if math.isnan(value):
        raise click.BadParameter(f"{value} is no number of seconds")
    return value


@click.command(epilog="Example: zonekeeper top --zone b --every 10")
@click.option("--once", is_flag=True, help="Show one interval, and end: for scripts.")
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0.1, max=3_600),
    callback=_a_number,
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Look so often.",
)
@click.option("--zone", "only", help="Only this zone.")
@connecting.over_tls
@reaching.on_cluster
def top(once: bool, every_s: float, only: str | None, tls: TlsFiles | None, place: Place) -> None:
    """Show which bookie or zone is slow, waits, or fails."""
    if place.as_json and not once:
        raise RefusedCommand("--output json: add --once")
    zone = None if only is None else ZoneName(only)
    files = connecting.page_files(tls)
    asking = _Asking(place, zone, every_s, files)
    second_hand.run(
        place,
        _top(asking, once=once),
        lambda away: _second_hand(asking, away),
        metrics=True,
        files=files,
    )


@dataclass(frozen=True, slots=True)
class _Asking:
    """What the person asks for."""

    place: Place
    #: None: all zones.
    zone: ZoneName | None
    every_s: float
    #: The certificate to show to bookies whose pages are by certificate.
    files: PageFiles | None


def _second_hand(asking: _Asking, away: SecondHand) -> None:
    """Show one interval of the bookies that are remembered: their metrics need no store."""
    before, place = _sights(away, asking.zone), asking.place

    async def again() -> SecondHand:
        await asyncio.sleep(asking.every_s)
        return await second_hand.asked(place, away.why, metrics=True, files=asking.files)

    after = _sights(reaching.run(again()), asking.zone)
    zones = {one.process.name: sights.zone_of(one) for one in away.sight.sights}
    rows = top_rows.rows(
        [_compared(name, zones.get(name), before.get(name), one) for name, one in after.items()]
    )
    if place.as_json:
        reaching.print_json({**_plain(rows), "storeAway": away.plain()})
    else:
        click.echo(second_hand_text.begin(away))
        reaching.console().print(_table(rows))


def _sights(away: SecondHand, only: ZoneName | None) -> dict[BookieId, _Sight]:
    return {
        one.process.name: _Sight(away.at_s, _read_metrics(one))
        for one in away.sight.of_kind(ProcessKind.BOOKIE)
        if only is None or sights.zone_of(one) == only
    }


def _read_metrics(sight: HttpSight) -> Look | str:
    if not isinstance(sight, Answering):
        return sight.why
    try:
        return top_metrics.parse(sight.metrics or "")
    except NotMetricsError as error:
        return str(error)


async def _top(asking: _Asking, *, once: bool) -> None:
    place, only = asking.place, asking.zone
    async with connecting.connected(place, None) as client:
        if only is not None and only not in client.bookies.topology.zones:
            known = client.bookies.topology.zones
            raise RefusedCommand(misnamed.there_is_no("zone", only, known))
        before = await _look_around(client, asking)
        if once:
            await asyncio.sleep(asking.every_s)
            after = await _look_around(client, asking)
            _answer(place, top_rows.rows(_seen(client, before, after)))
            return
        console = reaching.console()
        drawn = Live(console=console, auto_refresh=False) if console.is_terminal else nullcontext()
        with drawn as live:
            while True:
                await asyncio.sleep(asking.every_s)
                after = await _look_around(client, asking)
                table = _table(top_rows.rows(_seen(client, before, after)))
                if live is None:
                    console.print(table)
                else:
                    live.update(table, refresh=True)
                before = after


async def _look_around(client: Client, asking: _Asking) -> dict[BookieId, _Sight]:
    """Read the metrics of all bookies, or of one zone's, some at the same time."""
    turn, only = asyncio.Semaphore(_AT_ONCE), asking.zone

    async def look(bookie: Bookie) -> _Sight:
        async with turn:
            found = await _look(client, bookie, asking.files)
            at_s = asyncio.get_running_loop().time()
            return _Sight(at_s, found, restricted.get(bookie.id, ()))

    wanted = [each for each in client.bookies.topology if only is None or _zone(each) == only]
    restricted = await _restrictions(client, wanted)
    sights = await asyncio.gather(*map(look, wanted))
    return dict(zip((each.id for each in wanted), sights, strict=True))


async def _restrictions(client: Client, wanted: list[Bookie]) -> Restrictions:
    """Read what keeps bookies from new data; without the store the metrics say part of it."""
    try:
        return await restricting.read(client.cluster, wanted)
    except StoreError:
        return {}


async def _look(client: Client, bookie: Bookie, files: PageFiles | None) -> Look | str:
    """Read the metrics of one bookie, or give the reason why they cannot be read."""
    if bookie.registration is Registration.ABSENT:
        return "not registered"
    try:
        info = await registration.read_service_info(client.cluster, bookie.id)
    except (StoreError, UnreadableError) as error:
        return f"its address is not known: {error}"
    if info is None:
        return "not registered"
    process = endpoints.of_bookie(bookie.id, info, reaching.wall_ms())
    if process.http is None:
        return "serves no HTTP"
    page = await over_http.page(process, seam.METRICS_PATH, _LIMITS, files)
    try:
        return page if isinstance(page, str) else _parsed(page)
    except NotMetricsError as error:
        return f"{process.http}: {error}"


def _parsed(page: FetchedPage) -> Look:
    if page.status != HTTPStatus.OK:
        raise NotMetricsError(f"/metrics answers {page.status}: {page.text.strip()}")
    return top_metrics.parse(page.text)


def _seen(
    client: Client, before: Mapping[BookieId, _Sight], after: Mapping[BookieId, _Sight]
) -> list[SampledBookie]:
    return [
        _compared(bookie, client.bookies.zone(bookie), before.get(bookie), sight)
        for bookie, sight in after.items()
    ]


def _compared(
    bookie: BookieId, zone: ZoneName | None, before: _Sight | None, after: _Sight
) -> SampledBookie:
    look, found = after.look, after.restrictions
    sampled = SampledBookie(
        bookie=bookie,
        zone=zone,
        work="seen for the first time",
        restricted=tuple(map(str, found)),
        restrictions=tuple(one.plain() for one in found),
    )
    if isinstance(look, str):
        return replace(sampled, work=look)
    if before is None or isinstance(before.look, str):
        return sampled
    said = any(one.what == restrictions.READ_ONLY for one in found)
    return replace(
        sampled,
        work=top_metrics.between(before.look, look, after.at_s - before.at_s),
        waiting_bytes=look.waiting_bytes,
        read_only_because=() if said else look.read_only_because,
    )


def _zone(bookie: Bookie) -> ZoneName | None:
    return None if bookie.location is None else bookie.location.zone


def _answer(place: Place, rows: list[TopRow]) -> None:
    if place.as_json:
        reaching.print_json(_plain(rows))
    else:
        reaching.console().print(_table(rows))


def _plain(rows: list[TopRow]) -> dict[str, object]:
    bookies = [top_rows.plain(row) for row in rows if row.bookie is not None]
    zones = [top_rows.plain(row) for row in rows if row.bookie is None]
    return {"bookies": bookies, "zones": zones}


def _table(rows: list[TopRow]) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False, collapse_padding=True)
    for title in ("zone", "bookie"):
        table.add_column(title, no_wrap=True)
    # Titles have two lines, so that a terminal of 80 columns has room for numbers and remarks.
    for title in (
        *("appends\n/s", "median\nms", "p99\nms"),
        *("reads\n/s", "median\nms", "p99\nms"),
        "pending\nKiB",
    ):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("errors, remarks")
    for row in rows:
        style = "bold" if row.bookie is None else ""
        remarks = Text("; ".join((*_errors(row), *row.remarks)), style="red")
        table.add_row(*_cells(row), remarks, style=style)
    return table


def _cells(row: TopRow) -> list[str]:
    cells = [row.zone or "?", row.bookie or ""]
    if row.work is None:
        return [*cells, *[""] * 7]
    for operation in (APPEND, READ):
        cells.append(f"{row.work.per_second(operation):.0f}")
        cells += [_ms(row.work.quantile_ms(operation, share)) for share in (MEDIAN, NEARLY_ALL)]
    return [*cells, f"{row.waiting_bytes / _KIB:.0f}"]


def _errors(row: TopRow) -> list[str]:
    """Give the bad outcomes, each with its count."""
    errors = {} if row.work is None else row.work.errors
    return [f"{count} {name}" for name, count in sorted(errors.items())]


def _ms(ms: float | None) -> str:
    if ms is None:
        return ""
    return "over" if math.isinf(ms) else f"{ms:g}"
