"""What commands on a live cluster share: how it is reached, by whom, and what an answer looks like.

Exit codes: 0 done, 1 it could not be done (out of reach, or it failed on the way), 2 what was asked
for is wrong (an address, a zone, another cluster's id, a refusal) and nothing was changed.
"""

import asyncio
import getpass
import json
import random
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, TypeVar

import click
from rich.console import Console

from zonekeeper.client import client as clients
from zonekeeper.client import errors as client_errors
from zonekeeper.client.client import Client
from zonekeeper.client.config import ClientConfig
from zonekeeper.metadata import cluster as clusters
from zonekeeper.metadata import errors, policy_store, zone_store
from zonekeeper.metadata.background import alongside
from zonekeeper.metadata.cluster import Cluster
from zonekeeper.metadata.malformed import UnreadableError
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.permission import Person, RefusedError
from zonekeeper.replication.alerts import Chronicle
from zonekeeper.replication.view import View
from zonekeeper.wire.tls import TlsFiles

_T = TypeVar("_T")
_Command = TypeVar("_Command", bound=Callable[..., None])

#: The records of a cluster that answers are read by then.
SEEN_TIMEOUT_MS: Final = 20_000

STORE: Final = click.option(
    "--store",
    "address",
    required=True,
    envvar="ZONEKEEPER_METADATA",
    show_envvar=True,
    metavar="URI",
    help="Where the cluster is: zk://host:2181/ledgers or sqlite:///path/meta.db.",
)
CLUSTER_ID: Final = click.option(
    "--cluster-id",
    metavar="UUID",
    envvar="ZONEKEEPER_CLUSTER_ID",
    show_envvar=True,
    help="Refuse any cluster but the one with this instance id.",
)
OUTPUT: Final = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The form of the answer.",
)
YES: Final = click.option("--yes", is_flag=True, help="Do not ask.")
DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Say what would be done, and stop.")
REASON: Final = click.option(
    "--reason", required=True, metavar="TEXT", help="Why, for the timeline and for who comes next."
)
BY: Final = click.option(
    "--by",
    "name",
    default=getpass.getuser,
    show_default="the user's name",
    metavar="NAME",
    help="Who does it, for the timeline.",
)


def tls_options(command: _Command) -> _Command:
    """Add the options that say how bookies are reached."""
    for name, what in (
        ("key", "The private key of --tls-certificate."),
        ("certificate", "What to show to bookies, as PEM."),
        ("authority", "Whose certificates to believe, as PEM; without it nothing is encrypted."),
    ):
        command = click.option(
            f"--tls-{name}",
            envvar=f"ZONEKEEPER_TLS_{name.upper()}",
            show_envvar=True,
            type=click.Path(exists=True, dir_okay=False),
            help=what,
        )(command)
    return command


class BadRequest(click.ClickException):
    """What was asked for is wrong; nothing was changed."""

    exit_code = 2


_WRONG: Final = (
    errors.BadStoreUriError,
    clusters.NotAClusterError,
    clusters.ForeignRootError,
    policy_store.PolicyChangedError,
    zone_store.UnderMaintenanceError,
    RefusedError,
)
_FAILED: Final = (errors.StoreError, UnreadableError, client_errors.ClientError, OSError)


@contextmanager
def reported() -> Iterator[None]:
    """Make a message and an exit code of what can go wrong."""
    try:
        yield
    except _WRONG as error:
        raise BadRequest(str(error)) from None
    except _FAILED as error:
        raise click.ClickException(str(error)) from None


def run(work: Coroutine[None, None, _T]) -> _T:
    """Run a command's work."""
    with reported():
        return asyncio.run(work)


@asynccontextmanager
async def opened(address: str, cluster_id: str | None) -> AsyncIterator[Cluster]:
    """Reach the cluster at an address, and no other than the one that is meant."""
    store = await open_store(address)
    try:
        cluster = await clusters.open_cluster(store)
        _check(cluster, cluster_id)
        yield cluster
    finally:
        await store.close()


@asynccontextmanager
async def connected(
    address: str, cluster_id: str | None, tls: TlsFiles | None
) -> AsyncIterator[Client]:
    """Reach a cluster and its bookies."""
    async with clients.connect(address, ClientConfig(tls=tls)) as client:
        _check(client.cluster, cluster_id)
        yield client


@asynccontextmanager
async def seen(cluster: Cluster) -> AsyncIterator[View]:
    """Look at a cluster's records and bookies, and go on doing so."""
    if await policy_store.read(cluster) is None:
        raise BadRequest(
            f"{cluster} has no policy: set one with `zonekeeper policy set`, or apply its "
            "BookieCluster resource"
        )
    view = View(cluster)
    async with alongside(view.follow()):
        try:
            async with asyncio.timeout(SEEN_TIMEOUT_MS / 1000):
                await view.known()
        except TimeoutError:
            raise click.ClickException(
                f"the records of {cluster} were not read in {SEEN_TIMEOUT_MS // 1000} s"
            ) from None
        yield view


def tls_files(authority: str | None, certificate: str | None, key: str | None) -> TlsFiles | None:
    """Give the files; all of them or none."""
    if authority is None and certificate is None and key is None:
        return None
    if authority is None or certificate is None or key is None:
        raise BadRequest("--tls-authority, --tls-certificate, --tls-key: give all three, or none")
    return TlsFiles(authority=Path(authority), certificate=Path(certificate), key=Path(key))


def person(name: str, reason: str) -> Person:
    """Say who it is; refuses what no record may hold."""
    given = Person(name=name, reason=reason)
    if fault := given.fault():
        raise BadRequest(fault)
    return given


def chronicle(cluster: Cluster, by: str) -> Chronicle:
    """Give the timeline, as one who writes in it."""
    return Chronicle(cluster, by=by, chance=random.SystemRandom(), wall_ms=wall_ms)


def wall_ms() -> int:
    """Give the time on the wall."""
    return time.time_ns() // 1_000_000


def print_json(data: object) -> None:
    """Print an answer as JSON."""
    click.echo(json.dumps(data, indent=2, sort_keys=True))


def console(*, stderr: bool = False) -> Console:
    """Give where tables are drawn."""
    return Console(highlight=False, soft_wrap=not sys.stdout.isatty(), stderr=stderr)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before what cannot be taken back; whoever cannot be asked must have said yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise BadRequest("nobody can be asked here: repeat with --yes, or look with --dry-run")
    click.confirm(question, abort=True, err=True)


def _check(cluster: Cluster, cluster_id: str | None) -> None:
    if cluster_id is not None and cluster_id != cluster.instance:
        raise BadRequest(f"this is another cluster: {cluster}, and not {cluster_id}")
