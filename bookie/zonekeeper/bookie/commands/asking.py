"""The common part of the tools' commands: options, questions and answers."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

import click

from zonekeeper.bookie.life import settings
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.commands import opening, options

T = TypeVar("T")


def absolute(_context: click.Context, _option: click.Parameter, path: Path | None) -> Path | None:
    """Give the absolute path of a folder, as a cookie names it."""
    return None if path is None else Path(os.path.normpath(path.absolute()))


DATA: Final = click.option(
    "--data",
    envvar=settings.DATA.environment,
    show_envvar=True,
    required=True,
    type=click.Path(path_type=Path),
    callback=absolute,
    metavar=settings.DATA.shown_as,
    help="The bookie's data folder; the bookie must not run.",
)
OUTPUT: Final = options.output("The form of the answer; lists in JSON are one object a line.")


def with_cluster(address: str, work: Callable[[Cluster], Awaitable[T]]) -> T:
    """Open the cluster, do some work with it, and close it."""

    async def run() -> T:
        async with opening.opened_cluster(address) as cluster:
            return await work(cluster)

    return asyncio.run(run())


def agreed(*, dry_run: bool, yes: bool, question: str) -> bool:
    """Ask the question; with ``yes`` agree without asking, with ``dry_run`` never agree."""
    if dry_run:
        click.echo("nothing was done (--dry-run)")
        return False
    if not yes:
        click.confirm(question, abort=True)
    return True


def show(plain: dict[str, object], text: str, output: str) -> None:
    """Print the answer in the wanted form."""
    click.echo(json.dumps(plain, indent=2, sort_keys=True) if output == "json" else text)


def told(line: str) -> None:
    """Print a line of progress on standard error."""
    click.echo(line, err=True)
