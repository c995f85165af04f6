"""A metadata store, and the cluster in it, opened for as long as a command runs.

A person waits for a command, so it does not wait long for the store: see ``StoreAwayError``.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

import click

from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.commands import options
from zonekeeper.metadata.store import reachable
from zonekeeper.metadata.store.background import alongside
from zonekeeper.metadata.store.errors import StoreUnavailableError
from zonekeeper.metadata.store.store import MetadataStore
from zonekeeper.metadata.stores import settings, uri
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.placement.base.troubles import Trouble

#: After the store did not answer, so long is spent on finding out what is at its address.
LOOKED_WITHIN_MS: Final = 200
#: A command that is at work makes sure so often that the store answers.
_ASKED_EVERY_S: Final = 0.5


class StoreAwayError(Trouble):
    """The store did not answer a command in time, and the command had changed nothing before."""

    retryable = True

    def __init__(self, why: str, *, remembered: bool = True) -> None:
        """``remembered``: false if it is known that no processes are remembered to be asked."""
        listed = ". `zonekeeper endpoints` lists where the processes answer without it"
        super().__init__(
            f"the metadata store is away: {why}. Nothing was changed; give the command again when "
            f"the store is back{listed if remembered else ''}"
        )
        self.why = why


def store_timeout_ms() -> int:
    """Give the limit that the running command was given for the store, or the default."""
    context = click.get_current_context(silent=True)
    given = None if context is None else context.meta.get(options.STORE_TIMEOUT_MS)
    return given if isinstance(given, int) else round(settings.STORE_TIMEOUT_S * 1000)


def quick() -> Timeouts:
    """Give the limits of a command that asks the store something and ends."""
    return Timeouts(request_ms=store_timeout_ms())


def lasting() -> Timeouts:
    """Give the limits of a command that works for long: it sits out a store that is away later."""
    return Timeouts(reach_ms=store_timeout_ms())


@contextlib.asynccontextmanager
async def opened_store(
    address: str, limits: Timeouts | None = None, *, must_exist: bool = True
) -> AsyncIterator[MetadataStore]:
    """Open the store at an address; only a command that makes a cluster may find nothing there.

    Without ``limits``: those of a command that asks something and ends.
    """
    try:
        store = await open_store(address, limits or quick(), must_exist=must_exist)
    except StoreUnavailableError as error:
        raise await away(address, error) from error
    try:
        yield store
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def opened_cluster(address: str, limits: Timeouts | None = None) -> AsyncIterator[Cluster]:
    """Open the cluster at an address."""
    async with opened_store(address, limits) as store:
        try:
            cluster = await clusters.open_cluster(store)
        except StoreUnavailableError as error:
            raise await away(address, error) from error
        yield cluster


async def away(address: str, error: StoreUnavailableError) -> StoreAwayError:
    """Say that the store is away, with what is at its address."""
    parsed = uri.parse(address)
    servers = parsed.servers if isinstance(parsed, uri.ZooKeeperAddress) else ()
    there = await reachable.each_server(servers, LOOKED_WITHIN_MS)
    problem = error.problem.partition(": is the address right")[0]
    return StoreAwayError(f"{error.store}: {problem}{f' ({there})' if there else ''}")


@contextlib.asynccontextmanager
async def attended(store: MetadataStore) -> AsyncIterator[None]:
    """End a block that only looks, as soon as the store does not answer any more.

    What follows the store waits until it is back. So the store is asked again and again, and the
    first question without an answer in time ends the block with ``StoreUnavailableError``. The
    block must not write: a write may be under way when the block ends.
    """
    async with alongside(_ask(store)):
        yield


async def _ask(store: MetadataStore) -> None:
    while True:
        await store.exists(store.root, sync=True)
        await asyncio.sleep(_ASKED_EVERY_S)
