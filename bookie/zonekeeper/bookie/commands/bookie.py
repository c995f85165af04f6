"""``zonekeeper bookie``: run it; the commands for a stopped bookie are in ``offline``."""

import asyncio
import json
import random
from pathlib import Path

import click

from zonekeeper.bookie.commands.offline import COMMANDS
from zonekeeper.bookie.life import own_formats, process, settings
from zonekeeper.metadata.commands import exits, options
from zonekeeper.metadata.formats import release_formats
from zonekeeper.wire.running import last_words, logs


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
    checked = options.given(settings.parse, flags, config)
    logs.set_up(checked.logging, {"process": "bookie", "bookie": checked.bookie_id})
    with exits.reported():
        asyncio.run(process.run(checked, random.SystemRandom(), click.echo))


@bookie.command(epilog="Example: zonekeeper bookie formats --output json")
@options.OUTPUT
@options.option(settings.TERMINATION_LOG)
def formats(*, output: str, termination_log: str | None) -> None:
    """Print the version of this zonekeeper, and the versions of the formats that it reads.

    It reads each version of a format from the lowest to the highest, and writes the highest. No
    bookie, disk or store is needed.
    """
    ours = own_formats.of_this_release()
    last_words.leave(
        Path(termination_log) if termination_log else None, release_formats.render(ours)
    )
    if output == "json":
        click.echo(json.dumps(ours.plain(), indent=2, sort_keys=True))
    else:
        click.echo("\n".join(ours.lines()))
