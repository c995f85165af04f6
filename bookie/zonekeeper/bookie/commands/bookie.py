"""``zonekeeper bookie``: run it; the commands for a stopped bookie are in ``offline``."""

import asyncio
import logging
import random

import click

from zonekeeper.bookie.commands.offline import COMMANDS
from zonekeeper.bookie.life import process, settings
from zonekeeper.metadata.commands import exits, options


@click.group(commands=COMMANDS)
def bookie() -> None:
    """Run a bookie, the storage server, and work on a stopped one."""


@bookie.command(
    epilog="Example: zonekeeper bookie run --id bk-a-0 --zone a --upgrade-domains 3 --data /data "
    "--metadata zk://zk/ledgers"
)
@options.CONFIG
@options.each_of(settings.SETTINGS)
def run(config: str | None, **flags: str | None) -> None:
    """Run a bookie until SIGTERM.

    The bookie prints one line when it is ready. It exits with 0 when it was stopped in order.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    checked = options.given(settings.parse, flags, config)
    with exits.reported():
        asyncio.run(process.run(checked, random.SystemRandom(), click.echo))
