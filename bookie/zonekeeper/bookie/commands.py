"""``zonekeeper bookie``: the commands of a bookie, for the shell to host.

Each flag has an environment variable; a flag goes first. Exit code 2: a setting is wrong; 1: the
bookie could not start, or could not go on.
"""

import asyncio
import logging
import random
import socket
from typing import Unpack

import click

from zonekeeper.bookie import process, settings
from zonekeeper.bookie.settings import BadSettingError, Texts


@click.group()
def bookie() -> None:
    """Run a storage server."""


@bookie.command()
@click.option(
    "--metadata",
    envvar="ZONEKEEPER_METADATA",
    show_envvar=True,
    required=True,
    metavar="URI",
    help="The metadata store and the cluster's root in it: zk://host:2181/ledgers or "
    "sqlite:///absolute/path/meta.db.",
)
@click.option(
    "--id",
    "bookie_id",
    envvar="ZONEKEEPER_BOOKIE_ID",
    show_envvar=True,
    default=socket.gethostname,
    show_default="the host name",
    help="The bookie's name for life. With an upgrade domain it ends in its ordinal: bk-a-0.",
)
@click.option(
    "--zone",
    envvar="ZONEKEEPER_ZONE",
    show_envvar=True,
    help="The zone that this machine stands in.  [default: what the bookie's cookie says]",
)
@click.option(
    "--upgrade-domains",
    envvar="ZONEKEEPER_UPGRADE_DOMAINS",
    show_envvar=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="How many upgrade domains each zone has; the ordinal says which one is this bookie's.",
)
@click.option(
    "--data",
    envvar="ZONEKEEPER_DATA",
    show_envvar=True,
    required=True,
    metavar="DIR",
    help="The folder for everything that the bookie keeps; an absolute path on a disk of its own.",
)
@click.option(
    "--listen",
    envvar="ZONEKEEPER_LISTEN",
    show_envvar=True,
    default=settings.DEFAULT_LISTEN,
    show_default=True,
    metavar="HOST:PORT",
    help="Where to serve clients; port 0 takes a free one.",
)
@click.option(
    "--advertise",
    envvar="ZONEKEEPER_ADVERTISE",
    show_envvar=True,
    metavar="HOST",
    help="What clients connect to.  [default: the host of --listen, or the host name]",
)
@click.option(
    "--http",
    envvar="ZONEKEEPER_HTTP",
    show_envvar=True,
    default=settings.DEFAULT_HTTP,
    show_default=True,
    metavar="HOST:PORT",
    help="Where to answer /healthz and /readyz; port 0 takes a free one.",
)
def run(**given: Unpack[Texts]) -> None:
    """Run a bookie until SIGTERM.

    It prints one line when it is ready, and exits with 0 when it was stopped in order.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        checked = settings.parse(given)
    except BadSettingError as error:
        raise click.UsageError(str(error)) from None
    try:
        asyncio.run(process.run(checked, random.SystemRandom(), _announce))
    except process.StoppedError as error:
        raise click.ClickException(str(error)) from None


def _announce(line: str) -> None:
    click.echo(line)
