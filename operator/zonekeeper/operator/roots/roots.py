"""A cluster's root in the metadata store, as the operator reads and changes it.

A look gives one of five facts: not asked, unreachable (unknown is not no), unusable, absent, found.
Every change is a compare-and-set, or makes the whole root in one transaction, or removes it.

The removal of a root cannot be undone, so it asks first whose it is, and keeps an order. LAYOUT,
INSTANCEID and the policy record go last, in one transaction with the root itself. Until then the
root is recognised as the same cluster's, so an interrupted removal can be continued.
"""

import asyncio
import random
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from zonekeeper.metadata.access.identities import Identities
from zonekeeper.metadata.bookies import bookie_watch
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import policy_store, zone_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import records
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.formats.service_info import PublishedRoom
from zonekeeper.metadata.ledgers import ledger_listing
from zonekeeper.metadata.ledgers.ledger_listing import Listed, UnreadableLedger
from zonekeeper.metadata.saving import securing
from zonekeeper.metadata.store.errors import BadStoreUriError, StoreError
from zonekeeper.metadata.store.layout import Root
from zonekeeper.metadata.store.store import (
    COMMIT_WRITES_MAX,
    Create,
    Delete,
    MetadataStore,
    Put,
    Write,
)
from zonekeeper.operator.roots import gates, obeying, planned, removals
from zonekeeper.operator.roots.followed import BookieReading
from zonekeeper.operator.roots.obeying import Obeying
from zonekeeper.operator.roots.planned import Declared, WorkFacts
from zonekeeper.operator.roots.resource_orders import ResourceOrder
from zonekeeper.operator.roots.secret_files import SecretFiles
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Registration
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.placement.policy.rules import Policy
from zonekeeper.placement.zones.bookie_orders import BookieOrder, OrderKind, OrderWord
from zonekeeper.placement.zones.losses import Records
from zonekeeper.placement.zones.maintenance import Maintenance
from zonekeeper.replication.gate import planned_work
from zonekeeper.replication.view.alerts import Chronicle

#: A listing of ledgers that takes longer proves nothing.
LISTING_SECONDS_MAX: Final = 60

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
    #: Those of them that take no writes.
    read_only: frozenset[BookieId] = frozenset()
    declared: Declared = field(default_factory=Declared)
    #: None: it was not read, because there is no planned work.
    work: WorkFacts | None = None
    #: The room that bookies publish; None: it was not read. One that publishes none is left out.
    rooms: Mapping[BookieId, PublishedRoom] | None = None
    #: What is to become of bookies; a text says why the record of an order cannot be read.
    orders: Mapping[BookieId, BookieOrder | str] = field(default_factory=dict)
    #: The records of the zone watch that can be read.
    gates: Records = field(default_factory=lambda: Records(zones={}, cluster=None))


Facts: TypeAlias = NotAsked | Unreachable | Unusable | Absent | RootFound

#: Errors that say something of the root, and not of the operator.
_UNUSABLE: Final = (clusters.ForeignRootError, UnreadableError, BadStoreUriError)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreWay:
    """How the operator comes to the store: what it shows there, and what a new root gets."""

    #: Adds to the store's address the files of the operator's credentials.
    address: Callable[[str], str] = lambda uri: uri
    #: Another number for other credentials: the store is then opened anew.
    turn: int = 0
    #: The ACLs of a new root follow from these; None: it has none.
    identities: Identities | None = None


class RootChangedError(Trouble):
    """The root is not what was seen when this was decided: look again."""


class Roots:
    """The root of one resource; the store stays open between looks."""

    def __init__(
        self,
        opener: Opener,
        *,
        wall_ms: Callable[[], int] = lambda: 0,
        bookies: BookieReading | None = None,
    ) -> None:
        """``bookies``: how looks read bookies; None: each look reads all that it asks."""
        self._opener = opener
        self._bookies = bookies or BookieReading()
        self._wall_ms = wall_ms
        self._chance: Final = random.SystemRandom()
        self._opened_by = ("", 0)
        self._store: MetadataStore | None = None
        #: May be replaced at any time; it counts from the next look on.
        self.way = StoreWay()
        #: The operator's credentials.
        self.files: Final = SecretFiles()

    async def look(
        self, address: str | None, *, for_work: bool = False, for_rooms: bool = False
    ) -> Facts:
        """Read what stands at the root.

        ``for_work``: also what planned work asks; ``for_rooms``: also the rooms of bookies.
        """
        if address is None:
            return NotAsked()
        try:
            store = await self._opened(address)
            cluster = await clusters.open_cluster(store)
            policy = await policy_store.read(cluster)
            # An order and its bookie's cookie end together. Orders are read first, so that no
            # bookie which is just being removed is taken for one without an order.
            orders = await removals.standing(cluster)
            registered = await bookie_watch.registrations(cluster)
            locations = await self._bookies.locations(cluster)
            rooms = await self._bookies.rooms(cluster, locations) if for_rooms else None
            return RootFound(
                instance=cluster.instance,
                policy=policy,
                locations=locations,
                registered=frozenset(registered),
                read_only=frozenset(
                    name for name, how in registered.items() if how is Registration.READ_ONLY
                ),
                declared=await planned.declared(cluster),
                orders=orders,
                work=await self._work_facts(cluster, locations) if for_work else None,
                rooms=rooms,
                gates=await gates.read(cluster, policy),
            )
        except clusters.NotAClusterError:
            return Absent()
        except _UNUSABLE as error:
            return Unusable(str(error))
        except StoreError as error:
            return Unreachable(str(error)) if error.retryable else Unusable(str(error))

    async def _work_facts(self, cluster: Cluster, bookies: Collection[BookieId]) -> WorkFacts:
        marked, first = await planned.marked(cluster)
        return WorkFacts(
            records=await self._bookies.records(cluster, bookies),
            marked=marked,
            first_marked=first,
            rooms=await self._bookies.rooms(cluster, bookies),
            zone_records=frozenset(await zone_store.zone_names(cluster)),
        )

    async def ledgers(self, address: str, *, instance: str) -> AsyncGenerator[Listed, None]:
        """List the ledgers of this very cluster; raises ``Trouble`` if the store is away."""
        cluster = await self._same(address, instance)
        # After a read that is in step with the store no later read shows an older state.
        await cluster.store.exists(cluster.root.path, sync=True)
        async with aclosing(ledger_listing.all_of(cluster)) as listed:
            async for one in listed:
                yield one

    async def naming(
        self, address: str, bookies: frozenset[BookieId], *, instance: str
    ) -> tuple[frozenset[BookieId], bool]:
        """Give those of these bookies that a ledger of this very cluster names.

        Is the second part false, then the others may be named, too: a ledger cannot be read, or
        the listing took too long. Raises ``Trouble`` where the store does not answer.
        """
        named, is_whole = set[BookieId](), True
        try:
            async with (
                asyncio.timeout(LISTING_SECONDS_MAX),
                aclosing(self.ledgers(address, instance=instance)) as listed,
            ):
                async for one in listed:
                    if isinstance(one, UnreadableLedger):
                        is_whole = False
                    else:
                        named |= bookies & one.metadata.bookies
                    if named == bookies:
                        break
        except TimeoutError:
            is_whole = False
        return frozenset(named), is_whole

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
        also: list[Write] = [record]
        if self.way.identities is not None:
            also += await securing.beginning(store, Root(store.root), self.way.identities, instance)
        await clusters.initialise(store, instance, also=also)

    async def publish(self, address: str, policy: Policy, *, instance: str, replaces: int) -> None:
        """Replace the policy of this very cluster, if it is still the version that was seen."""
        await policy_store.write(await self._same(address, instance), policy, replaces=replaces)

    async def declare(self, address: str, unit: Location, *, instance: str, owner: str) -> None:
        """Declare maintenance of a unit; raises ``UnderMaintenanceError`` if a declaration stands.

        The timeline tells of it.
        """
        cluster = await self._same(address, instance)
        made = await self._declaration(cluster, unit, owner)
        await planned_work.start(cluster, (made,), self._chronicle(cluster, owner))

    async def renew(self, address: str, standing: Maintenance, *, instance: str) -> None:
        """Let a declaration last anew, if it is still this one."""
        cluster = await self._same(address, instance)
        fresh = await self._declaration(cluster, standing.unit, standing.declared_by.name)
        await zone_store.renew(cluster, standing, fresh)

    async def lift(self, address: str, standing: Maintenance, *, instance: str) -> None:
        """End a declaration, if it is still this one; the timeline tells of it."""
        cluster, person = await self._same(address, instance), standing.declared_by
        told = self._chronicle(cluster, person.name)
        await planned_work.end(cluster, (standing,), person, told)

    async def order(
        self,
        address: str,
        bookie: BookieId,
        kind: OrderKind,
        *,
        instance: str,
        owner: str,
        reason: str,
    ) -> None:
        """Give an order about a bookie; raises ``RefusedError`` if it is forgotten."""
        cluster = await self._same(address, instance)
        word = OrderWord(at_ms=self._wall_ms(), by=owner, reason=reason)
        told = self._chronicle(cluster, owner)
        await removals.give(cluster, bookie, word, chance=self._chance, told=told, kind=kind)

    async def confirm_emptied(
        self, address: str, bookie: BookieId, token: str, *, instance: str
    ) -> None:
        """Raise ``RootChangedError`` unless this order stands and says that it is emptied."""
        cluster = await self._same(address, instance)
        if not await removals.is_emptied(cluster, bookie, token):
            raise RootChangedError(f"{bookie}: its order is another one, or says otherwise now")

    async def take_removal_back(
        self, address: str, bookie: BookieId, token: str, *, instance: str, owner: str
    ) -> None:
        """Take this very order back; one that is over, or another one, stays as it is."""
        cluster = await self._same(address, instance)
        reason = "the resource asks for the bookie again"
        word = OrderWord(at_ms=self._wall_ms(), by=owner, reason=reason)
        await removals.take_back(cluster, bookie, token, word)

    async def obey(self, address: str, order: ResourceOrder, *, instance: str) -> None:
        """Carry out a person's order in this very cluster; raises ``RefusedError``."""
        cluster = await self._same(address, instance)
        told = self._chronicle(cluster, order.person.name)
        await obeying.obey(
            order,
            Obeying(cluster=cluster, told=told, chance=self._chance, wall_ms=self._wall_ms),
        )

    async def _declaration(self, cluster: Cluster, unit: Location, owner: str) -> Maintenance:
        policy = await policy_store.read(cluster)
        if policy is None:
            raise RootChangedError(f"{cluster} has no policy any more")
        return planned.declaration(unit, owner, policy, self._chance)

    def _chronicle(self, cluster: Cluster, by: str) -> Chronicle:
        return Chronicle(cluster, by=by, chance=self._chance, wall_ms=self._wall_ms)

    async def cluster(self, address: str, *, instance: str) -> Cluster:
        """Give this very cluster, for a listing of its ledgers."""
        return await self._same(address, instance)

    async def remove_zone(self, address: str, zone: ZoneName, *, instance: str) -> None:
        """Remove the zone watch's record of a zone that the policy does not name any more."""
        cluster = await self._same(address, instance)
        policy = await policy_store.read(cluster)
        if policy is None or zone in policy.placement.zones:
            raise RootChangedError(f"the policy of {cluster} names zone {zone}")
        await zone_store.change_zone(cluster, zone, lambda _: None)

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
        """Close the store, and forget the credentials."""
        await self._close_store()
        self.files.close()

    async def _close_store(self) -> None:
        self._bookies.give_up()
        store, self._store = self._store, None
        if store is not None:
            await store.close()

    async def _same(self, address: str, instance: str) -> Cluster:
        cluster = await clusters.open_cluster(await self._opened(address))
        if cluster.instance != instance:
            raise RootChangedError(f"{cluster} stands there, and not instance {instance} any more")
        return cluster

    async def _opened(self, address: str) -> MetadataStore:
        opened_by = (address, self.way.turn)
        if opened_by != self._opened_by:
            await self._close_store()
        if self._store is None:
            self._store = await self._opener(self.way.address(address))
            self._opened_by = opened_by
        return self._store


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
