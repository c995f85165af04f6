"""Giving each node of a root the ACL of its kind, and taking that back.

The identities are written first, in one node. From then on each running process gives its new nodes
their ACLs. Then the tree is walked, parents before children, and each node with another ACL gets
the one that it should have. A process that had not heard of the identities may have made a node
behind the walk. So the tree is walked again until a walk finds nothing to change.

Every step is a compare-and-set of one node, and done again it changes nothing: an interrupted run
is begun again. A node of no kind of ours is *strange*. It may be of a newer release or of another
program, so it is reported and stays as it is.

The way back removes the identities first, so that no process makes a guarded node any more. Then it
opens every node to the world.
"""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from zonekeeper.metadata.access import identities, node_rights
from zonekeeper.metadata.access.guard import OPEN_ACL, Acl
from zonekeeper.metadata.access.guarded import GuardedStore
from zonekeeper.metadata.access.identities import Identities
from zonekeeper.metadata.access.node_rights import StoreRole
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.store import update
from zonekeeper.metadata.store.background import together
from zonekeeper.metadata.store.errors import (
    NodeExistsError,
    NoNodeError,
    StoreError,
    UnauthorizedError,
    VersionConflictError,
)
from zonekeeper.metadata.store.layout import Root
from zonekeeper.metadata.store.store import Create, MetadataStore, Put, Versioned, Write
from zonekeeper.placement.base.troubles import Refusal

#: Walks after which a root that still changes is reported as unsettled.
WALKS_MAX: Final = 5
#: A report names at most this many strange nodes.
STRANGE_NAMED_MAX: Final = 20
_IN_FLIGHT_MAX: Final = 64
_ATTEMPTS_MAX: Final = 5


class NotSecurableError(Refusal):
    """The root cannot be given these ACLs: the message says what is missing."""


@dataclass(slots=True, kw_only=True)
class SecuringReport:
    """What a run saw and did; with a dry run, what it would do."""

    #: Nodes of the last walk.
    nodes: int = 0
    #: ACLs that were set, over all walks.
    changed: int = 0
    #: Directories that were made.
    made: int = 0
    walks: int = 0
    #: False: the last walk still found nodes to change.
    is_settled: bool = False
    strange: int = 0
    #: The first strange nodes, with whether the world may use them.
    strange_paths: list[tuple[str, bool]] = field(default_factory=list)


#: Gives the ACL that a node should have, by its path, the one that it has, and what it says.
Wanted: TypeAlias = Callable[[str, Acl, bytes], Acl]
Progress: TypeAlias = Callable[[SecuringReport], None]


def guarded(store: MetadataStore) -> GuardedStore:
    """Give the store as one with ACLs; raises ``NotSecurableError``."""
    if not isinstance(store, GuardedStore):
        raise NotSecurableError(
            f"{store.name} has no ACLs: who may read and write its file may do everything"
        )
    return store


async def beginning(
    store: MetadataStore, root: Root, wanted: Identities, instance: str
) -> list[Write]:
    """Give the writes of a new root with identities, beside those of any root.

    They are of the same transaction (``clusters.initialise``), so no node of such a root is ever
    open. What an earlier cluster left in our own tree is taken over, with the ACL that it has.
    """
    guarded(store).assume(wanted)
    value = identities.render(wanted, instance)
    path = root.beside(identities.NAME)
    left = await store.get(path, sync=True)
    writes: list[Write] = [
        Create(path=path, value=value)
        if left is None
        else Put(path=path, value=value, version=left.version)
    ]
    for name in sorted({*node_rights.DIRECTORIES} - {*clusters.BESIDE}):
        if not await store.exists(root.beside(name), sync=True):
            writes.append(Create(path=root.beside(name)))
    return writes


async def secure(
    cluster: Cluster,
    wanted: Identities | None,
    *,
    dry_run: bool,
    progress: Progress = lambda _: None,
) -> SecuringReport:
    """Give each node its ACL; None: by the identities that the root has already.

    Raises ``NotSecurableError`` before anything is written.
    """
    store = guarded(cluster.store)
    wanted = await _wanted(cluster, wanted)
    if StoreRole.ADMIN not in wanted.roles_of(store.guard.mine):
        shown = ", ".join(one.shown for one in store.guard.mine) or "none"
        raise NotSecurableError(
            "the identities give none of ours the role admin, so this command could not be run "
            f"again; ours: {shown}. Run it as an admin, with 'auth-file' or 'tls-cert'"
        )
    run = _Securing(cluster, store, SecuringReport(), dry_run=dry_run, progress=progress)
    if not dry_run:
        await _publish(cluster, wanted)
    store.assume(wanted)
    guard = store.guard.knowing(wanted)
    await run.make_directories()
    return await run.walk(guard.wanted)


async def open_again(
    cluster: Cluster, *, dry_run: bool, progress: Progress = lambda _: None
) -> SecuringReport:
    """Open each node to the world, as in a root that never had identities."""
    store = guarded(cluster.store)
    run = _Securing(cluster, store, SecuringReport(), dry_run=dry_run, progress=progress)
    if not dry_run:
        path = cluster.root.beside(identities.NAME)
        await update.update(store, path, lambda _: update.RemoveNode())
        store.assume(None)
    return await run.walk(lambda _path, _acl, _value: OPEN_ACL)


async def _wanted(cluster: Cluster, wanted: Identities | None) -> Identities:
    if wanted is not None:
        return wanted
    node = await cluster.store.get(cluster.root.beside(identities.NAME), sync=True)
    if node is None:
        raise NotSecurableError(f"{cluster} has no identities yet: give a file of them")
    return identities.parse(node.value)


async def _publish(cluster: Cluster, wanted: Identities) -> None:
    """Write the identities, with the fields of a newer program that stand there."""

    def decide(node: Versioned | None) -> update.Decision:
        whole = wanted
        if node is not None:
            standing = identities.parse(node.value)
            whole = replace(wanted, unknown=standing.unknown)
        raw = identities.render(whole, cluster.instance)
        return update.Keep() if node is not None and node.value == raw else update.Store(raw)

    await update.update(cluster.store, cluster.root.beside(identities.NAME), decide)


class _Securing:
    """One run over a root."""

    def __init__(
        self,
        cluster: Cluster,
        store: GuardedStore,
        report: SecuringReport,
        *,
        dry_run: bool,
        progress: Progress,
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._report = report
        self._dry_run = dry_run
        self._progress = progress

    async def make_directories(self) -> None:
        """Make the directories that roles may not make themselves."""
        for name in node_rights.DIRECTORIES:
            path = self._cluster.root.beside(name)
            if await self._store.exists(path, sync=True):
                continue
            self._report.made += 1
            if self._dry_run:
                continue
            try:
                await self._store.create(path)
            except NodeExistsError:
                self._report.made -= 1
            except StoreError as error:
                if not error.maybe_applied or not await self._store.exists(path, sync=True):
                    raise

    async def walk(self, wanted: Wanted) -> SecuringReport:
        """Walk until nothing changes; a dry run walks once."""
        report = self._report
        while report.walks < (1 if self._dry_run else WALKS_MAX) and not report.is_settled:
            report.walks += 1
            report.nodes, report.strange, report.strange_paths = 0, 0, []
            before = report.changed
            async for batch in self._batches():
                await together(self._see(path, wanted) for path in batch)
                self._progress(report)
            report.is_settled = report.changed == before
        return report

    async def _batches(self) -> AsyncGenerator[list[str], None]:
        """Give all paths, a few at a time; a node stands in an earlier batch than its children."""
        todo = [self._cluster.root.own, self._cluster.root.path]
        while todo:
            batch = [todo.pop() for _ in range(min(len(todo), _IN_FLIGHT_MAX))]
            yield batch
            # The names are read after the ACL was set: nobody without a right adds to them now.
            below = await together(self._store.children(path, sync=True) for path in batch)
            for path, names in zip(batch, below, strict=True):
                todo += [f"{path}/{name}" for name in names or ()]

    async def _see(self, path: str, wanted: Wanted) -> None:
        """Set one node's ACL, unless it is as it should be."""
        for _ in range(_ATTEMPTS_MAX):
            found = await self._store.acl(path)
            if found is None:
                return  # deleted meanwhile
            acl = wanted(path, found.entries, await self._value(path))
            if self._store.guard.kind_of(path) is None and acl != OPEN_ACL:
                self._note_strange(path, found.entries)
                break
            if frozenset(acl) == frozenset(found.entries):
                break
            try:
                if not self._dry_run:
                    await self._store.set_acl(path, acl, version=found.version)
            except VersionConflictError:
                continue  # another run was faster
            except NoNodeError:
                return
            except UnauthorizedError as error:
                shown = ", ".join(map(str, found.entries))
                raise NotSecurableError(
                    f"the ACL of {path} may be changed by its admin only ({shown}): put that "
                    "identity into the 'auth-file' too, in a line of its own, and run this again"
                ) from error
            self._report.changed += 1
            break
        self._report.nodes += 1

    async def _value(self, path: str) -> bytes:
        """Read what a node says, where its ACL follows from that; it never changes its owner."""
        if not self._store.guard.has_owner(path):
            return b""
        node = await self._store.get(path, sync=True)
        return b"" if node is None else node.value

    def _note_strange(self, path: str, acl: Acl) -> None:
        self._report.strange += 1
        if len(self._report.strange_paths) < STRANGE_NAMED_MAX:
            is_open = any(entry in OPEN_ACL or entry.identity.scheme == "world" for entry in acl)
            self._report.strange_paths.append((path, is_open))
