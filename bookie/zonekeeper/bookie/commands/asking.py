"""The common part of the tools' commands: options, questions, answers and error messages."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import click

from zonekeeper.bookie.formats.arrival_scan import DamagedLogError
from zonekeeper.bookie.life import boots, identity
from zonekeeper.bookie.life.settings import BadSettingError
from zonekeeper.bookie.tools.folders import ToolError
from zonekeeper.metadata.bookies import cookie_store
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import cookies
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.formats.records import ForeignRecordError
from zonekeeper.metadata.store.errors import BadStoreUriError, StoreError
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.wire.formats.errors import IoFailed

T = TypeVar("T")


def absolute(_context: click.Context, _option: click.Parameter, path: Path | None) -> Path | None:
    """Give the absolute path of a folder, as a cookie names it."""
    return None if path is None else Path(os.path.normpath(path.absolute()))


DATA: Final = click.option(
    "--data",
    envvar="ZONEKEEPER_DATA",
    show_envvar=True,
    required=True,
    type=click.Path(path_type=Path),
    callback=absolute,
    metavar="DIR",
    help="The bookie's data folder; the bookie must not run.",
)
METADATA: Final = click.option(
    "--metadata",
    envvar="ZONEKEEPER_METADATA",
    show_envvar=True,
    required=True,
    metavar="URI",
    help="The metadata store and the cluster's root in it.",
)
OUTPUT: Final = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The form of the answer; lists in JSON are one object a line.",
)
DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Only say what would be done.")
YES: Final = click.option("--yes", is_flag=True, help="Do not ask.")

#: Errors of the outside world. Any other error is a bug, and is raised as it is.
_TROUBLES: Final = (
    ToolError,
    BadSettingError,
    BadStoreUriError,
    DamagedLogError,
    IoFailed,
    OSError,
    StoreError,
    UnreadableError,
    ForeignRecordError,
    clusters.NotAClusterError,
    clusters.ForeignRootError,
    cookie_store.NoCookieError,
    cookie_store.CookieExistsError,
    cookies.LocationUnknownError,
    cookies.OtherBookieError,
    identity.WrongDiskError,
    boots.UntrustedDiskError,
)


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Turn an error of the outside world into a message and exit code 2."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of the answer has closed its end
    except _TROUBLES as error:
        click.echo(f"zonekeeper bookie: {error}", err=True)
        sys.exit(2)


def with_cluster(address: str, work: Callable[[Cluster], Awaitable[T]]) -> T:
    """Open the cluster, do some work with it, and close it."""

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[Cluster]:
        store = await open_store(address, must_exist=True)
        try:
            yield await clusters.open_cluster(store)
        finally:
            await store.close()

    async def run() -> T:
        async with opened() as cluster:
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
