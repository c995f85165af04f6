"""A cluster's root in the metadata store, as the operator reads and changes it.

A look gives one of five facts: not asked, unreachable (unknown is not no), unusable, absent, found.
Every change is a compare-and-set, or makes the whole root in one transaction, or removes it.

The removal of a root cannot be undone, so it asks first whose it is, and keeps an order. LAYOUT,
INSTANCEID and the policy record go last, in one transaction with the root itself. Until then the
root is recognised as the same cluster's, so an interrupted removal can be continued.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from zonekeeper.metadata.bookies import bookie_watch, cookie_store
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import policy_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import records
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.store.errors import BadStoreUriError, StoreError
from zonekeeper.metadata.store.layout import Root
from zonekeeper.metadata.store.store import COMMIT_WRITES_MAX, Create, Delete, MetadataStore, Put
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.placement.policy.rules import Policy

READS_IN_FLIGHT_MAX: Final = 32

Opener: TypeAlias = Callable[[str], Awaitable[MetadataStore]]


@dataclass(frozen=True, slots=True)
class NotAsked:
    """The resource names no store that can be used."""


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The store does not answer, so it is unknown what stands at the root."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unusable:
    """Something stands at the root that is not a cluster which this version can read."""

    reason: str


@dataclass(frozen=True, slots=True)
class Absent:
    """The store answers, and nothing stands at the root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RootFound:
    """A cluster stands at the root."""

    instance: str
    #: None: no policy was set.
    policy: Policy | None
    #: Every bookie with a cookie; None: its cookie has no location, or cannot be read.
    locations: Mapping[BookieId, Location | None]
    registered: frozenset[BookieId]


Facts: TypeAlias = NotAsked | Unreachable | Unusable | Absent | RootFound

#: Errors that say something of the root, and not of the operator.
_UNUSABLE: Final = (clusters.ForeignRootError, UnreadableError, BadStoreUriError)


class RootChangedError(Trouble):
    """The root is not what was seen when this was decided: look again."""


class Roots:
    """The root of one resource; the store stays open between looks."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._uri = ""
        self._store: MetadataStore | None = None

    async def look(self, address: str | None) -> Facts:
        """Read what stands at the root."""
        if address is None:
            return NotAsked()
        try:
            store = await self._opened(address)
            cluster = await clusters.open_cluster(store)
            return RootFound(
                instance=cluster.instance,
                policy=await policy_store.read(cluster),
                locations=await _locations(cluster),
                registered=frozenset(await bookie_watch.registrations(cluster)),
            )
        except clusters.NotAClusterError:
            return Absent()
        except _UNUSABLE as error:
            return Unusable(str(error))
        except StoreError as error:
            return Unreachable(str(error)) if error.retryable else Unusable(str(error))

    async def initialise(self, address: str, policy: Policy) -> None:
        """Make the root and its policy in one transaction; a root that stands counts as done.

        With two transactions, an interruption between them would leave a root without an owner. If
        an earlier cluster's root was wiped without its policy record, that record is replaced.
        """
        store, instance = await self._opened(address), str(uuid.uuid4())
        data = policy_store.CODEC.render(replace(policy, version=1, instance=instance))
        path = Root(store.root).beside("policy")
        value, left = records.render(data, instance), await store.get(path, sync=True)
        record = (
            Create(path=path, value=value)
            if left is None
            else Put(path=path, value=value, version=left.version)
        )
        await clusters.initialise(store, instance, also=[record])

    async def publish(self, address: str, policy: Policy, *, instance: str, replaces: int) -> None:
        """Replace the policy of this very cluster, if it is still the version that was seen."""
        await policy_store.write(await self._same(address, instance), policy, replaces=replaces)

    async def remove(self, address: str, *, instance: str) -> None:
        """Remove the root of this very cluster, with every node in it."""
        cluster = await self._same(address, instance)
        store, root = cluster.store, cluster.root
        last = [root.beside("policy"), root.own, root.below("LAYOUT"), root.below("INSTANCEID")]
        for top in (root.path, root.own):
            await _remove_below(store, top, keep=frozenset(last))
        standing = [path for path in (*last, root.path) if await store.exists(path, sync=True)]
        await store.commit([Delete(path=path, version=None) for path in standing])

    async def close(self) -> None:
        """Close the store."""
        store, self._store = self._store, None
        if store is not None:
            await store.close()

    async def _same(self, address: str, instance: str) -> Cluster:
        cluster = await clusters.open_cluster(await self._opened(address))
        if cluster.instance != instance:
            raise RootChangedError(f"{cluster} stands there, and not instance {instance} any more")
        return cluster

    async def _opened(self, address: str) -> MetadataStore:
        if address != self._uri:
            await self.close()
        if self._store is None:
            self._store = await self._opener(address)
            self._uri = address
        return self._store


async def _locations(cluster: Cluster) -> dict[BookieId, Location | None]:
    bookies = await cookie_store.ids(cluster)
    gate = asyncio.Semaphore(READS_IN_FLIGHT_MAX)

    async def read(bookie: BookieId) -> Location | None:
        async with gate:
            try:
                stored = await cookie_store.read(cluster, bookie)
            except UnreadableError:
                return None
        return None if stored is None else stored.cookie.location

    return dict(zip(bookies, await asyncio.gather(*map(read, bookies)), strict=True))


async def _remove_below(store: MetadataStore, top: str, *, keep: frozenset[str]) -> None:
    """Remove every node under ``top``, children before parents, in bounded transactions."""
    paths: list[str] = []
    todo = [top]
    while todo:
        path = todo.pop()
        children = [f"{path}/{name}" for name in await store.children(path, sync=True) or ()]
        todo += children
        paths += [child for child in children if child not in keep]
    # Each path stands after its parent, so in reverse order children come first.
    paths.reverse()
    for start in range(0, len(paths), COMMIT_WRITES_MAX // 2):
        part = paths[start : start + COMMIT_WRITES_MAX // 2]
        await store.commit([Delete(path=path, version=None) for path in part])
