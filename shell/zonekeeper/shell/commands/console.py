"""``zonekeeper console``: a page in a browser that shows the cluster live, for looking only."""

import asyncio
import webbrowser
from contextlib import suppress
from typing import Final

import click

from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.metadata.store.background import alongside
from zonekeeper.metadata.store.errors import BadStoreUriError
from zonekeeper.metadata.stores import uri
from zonekeeper.shell.console import serving
from zonekeeper.shell.console.looker import Looker
from zonekeeper.shell.console.routes import Routes
from zonekeeper.shell.reaching import connecting, reaching
from zonekeeper.shell.reaching.reaching import Place
from zonekeeper.wire.formats.addresses import PORT_MAX
from zonekeeper.wire.grpc.tls import TlsFiles

LOOPBACK: Final = "127.0.0.1"
_EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 only compared with


@click.command(epilog="Example: zonekeeper console --host localhost")
@click.option(
    "--host",
    default=LOOPBACK,
    show_default=True,
    metavar="HOST",
    help="Listen at this address. Who reaches it sees the cluster: there is no password.",
)
@click.option(
    "--port",
    type=click.IntRange(0, PORT_MAX),
    default=0,
    show_default="a free port",
    metavar="PORT",
    help="Listen at this port.",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@connecting.over_tls
@reaching.on_cluster
def console(host: str, port: int, opens: bool, tls: TlsFiles | None, place: Place) -> None:
    """Show zones, bookies, holds and their price on one page, live, until Ctrl-C.

    The page changes nothing: its actions are commands to copy. It works on while the metadata store
    is away, says how old each part is, and asks the processes over HTTP at the endpoints last seen.
    With --output json the first line is {"url": ...}.
    """
    try:
        uri.parse(place.address)
    except BadStoreUriError as error:
        raise RefusedCommand(str(error)) from None
    reaching.run(_serve(place, tls, host, port, opens=opens))


async def _serve(place: Place, tls: TlsFiles | None, host: str, port: int, *, opens: bool) -> None:
    looker = Looker(place, tls, reaching.wall_ms)
    routes = Routes(looker, reaching.wall_ms)
    names = frozenset() if host in _EVERYWHERE else frozenset({host.lower()})
    async with serving.served(routes.answer, host, port, names) as bound:
        shown = LOOPBACK if host == _EVERYWHERE[0] else "[::1]" if host == _EVERYWHERE[1] else host
        url = f"http://{f'[{shown}]' if ':' in shown and shown[0] != '[' else shown}:{bound}/"
        if place.as_json:
            reaching.print_json({"url": url})
        else:
            click.echo(f"the console is at {url}")
        reaching.tell("it changes nothing; Ctrl-C ends it")
        if opens:
            with suppress(webbrowser.Error):
                await asyncio.to_thread(webbrowser.open, url)
        async with alongside(looker.run()):
            await asyncio.Event().wait()
