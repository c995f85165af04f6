"""``zonekeeper endpoints``: where the processes of a cluster serve their pages.

With the store there, they are read from it, and noted. With the store away, they are those that
were noted last: the command says so, and how old they are.
"""

import os
from collections.abc import Mapping

import click
from rich import box
from rich.table import Table
from rich.text import Text

from zonekeeper.placement.base.ids import BookieId
from zonekeeper.shell.reaching import endpoints as stored
from zonekeeper.shell.reaching import last_seen, reaching, second_hand, seen_logs
from zonekeeper.shell.reaching.last_seen import LastSeen
from zonekeeper.shell.reaching.reaching import Place
from zonekeeper.shell.reaching.second_hand import SecondHand
from zonekeeper.shell.reports import second_hand_text
from zonekeeper.wire.running.page_identity import ProcessKind


@click.command(epilog="Example: zonekeeper endpoints --output json")
@click.option("--forget", is_flag=True, help="Forget what is remembered of this cluster, and end.")
@reaching.on_cluster
def endpoints(forget: bool, place: Place) -> None:
    """List where bookies and autorecovery processes serve their pages.

    They are read from the metadata store, and remembered in a file of the user's cache. With the
    store away, the command lists the remembered ones, asks each whether it answers, and exits with
    3.
    """
    if forget:
        with reaching.reported():
            store = last_seen.store_name(place.address)
            processes = last_seen.forget(last_seen.cache_folder(os.environ), store)
            logs = last_seen.forget(seen_logs.cache_folder(os.environ), store)
        _answer_forgotten(place, gone=processes or logs)
        return
    found = second_hand.run(place, _read(place), lambda away: _show_remembered(place, away))
    if place.as_json:
        reaching.print_json({**_plain(found), "storeAway": None})
    else:
        _show(found, {})


async def _read(place: Place) -> LastSeen:
    async with reaching.opened(place) as cluster:
        return await stored.read(cluster, place.address, reaching.wall_ms())


def _plain(found: LastSeen) -> dict[str, object]:
    return {
        "store": found.store,
        "instance": found.instance,
        "seen": second_hand.when(found.seen_ms),
        "seenMs": found.seen_ms,
        "endpoints": [last_seen.plain(one) for one in found.processes],
    }


def _show_remembered(place: Place, away: SecondHand) -> None:
    says = {
        (one.process.kind, one.process.name): second_hand_text.process(one)
        for one in away.sight.sights
    }
    if place.as_json:
        listed = [
            {**last_seen.plain(one), "says": says[one.kind, one.name]}
            for one in away.last.processes
        ]
        whole = {**_plain(away.last), "endpoints": listed, "storeAway": away.plain()}
        reaching.print_json(whole)
        return
    click.echo(second_hand_text.begin(away))
    told = {
        (one.process.kind, one.process.name): second_hand_text.in_words(one)
        for one in away.sight.sights
    }
    _show(away.last, told)


def _show(found: LastSeen, told: Mapping[tuple[ProcessKind, BookieId], str]) -> None:
    table = Table(box=box.SIMPLE)
    for title in ("process", "name", "zone", "pages", "clients", *(["answers"] if told else [])):
        table.add_column(title)
    for one in found.processes:
        pages = f"{one.http or 'none'}{' (by certificate)' if one.http_tls else ''}"
        cells = [one.kind, one.name, one.zone or "?", pages, one.address or ""]
        cells += [told[one.kind, one.name]] if told else []
        table.add_row(*(Text(str(cell)) for cell in cells))
    reaching.console().print(table)


def _answer_forgotten(place: Place, *, gone: bool) -> None:
    if place.as_json:
        reaching.print_json({"forgotten": gone})
    else:
        click.echo("forgotten" if gone else "nothing was remembered")
