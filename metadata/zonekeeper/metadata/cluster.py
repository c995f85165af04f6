"""A cluster in a store: made once and whole, then opened by everything that works with it.

All that makes a root a cluster is written in one transaction, so that no crash leaves half of one.
Making it again finds it made. A root that something else stands in is refused: bookies of a Java
cluster and ours under one root would be chosen by clients that cannot speak to them. An empty root
that Apache's ``initnewcluster`` made is taken over.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from zonekeeper.metadata import layout, underreplication_format
from zonekeeper.metadata.errors import NodeExistsError, StoreError
from zonekeeper.metadata.layout import Root
from zonekeeper.metadata.malformed import UnreadableError
from zonekeeper.metadata.store import Create, MetadataStore, Write, parent_of

#: The directories of a cluster: Apache makes most of them when they are first used.
_BELOW: Final = {
    "available": b"",
    "available/readonly": b"",
    "cookies": b"",
    "idgen": b"",
    "underreplication": b"",
    "underreplication/LAYOUT": underreplication_format.LAYOUT,
    "underreplication/ledgers": b"",
    "underreplication/locks": b"",
    "underreplication/auditorelection": b"",
}
_BESIDE: Final = ("bookies", "maintenance", "timeline", "zone-watch", "zones")

#: What ``initnewcluster`` makes, and nothing else.
_FRESH: Final = frozenset({"LAYOUT", "INSTANCEID", "available"})


class NotAClusterError(Exception):
    """There is no cluster at this root: nobody made one, or the address is wrong."""

    retryable: ClassVar[bool] = True
    maybe_applied: ClassVar[bool] = False


class ForeignRootError(Exception):
    """Something else stands at this root, so no cluster of ours can."""

    retryable: ClassVar[bool] = False
    maybe_applied: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that was found in a store: what every operation on its metadata needs."""

    store: MetadataStore
    root: Root
    instance: str

    def __str__(self) -> str:
        return f"{self.root.path} in {self.store.name} (instance {self.instance})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many bookies a cluster knows, and how many say that they are there."""

    cookies: int
    writable: int
    read_only: int


async def open_cluster(store: MetadataStore) -> Cluster:
    """Find the cluster at the store's root; raises ``NotAClusterError`` or ``ForeignRootError``."""
    root = Root(store.root)
    raw_layout = await store.get(root.below("LAYOUT"), sync=True)
    raw_instance = await store.get(root.below("INSTANCEID"), sync=True)
    where = f"{root.path} in {store.name}"
    if raw_layout is None and raw_instance is None:
        raise NotAClusterError(
            f"there is no cluster at {where}: initialise it with `zonekeeper cluster init`, "
            "or correct the root in the store's address"
        )
    if raw_layout is None or raw_instance is None:
        missing = "LAYOUT" if raw_layout is None else "INSTANCEID"
        raise ForeignRootError(
            f"{where} has no {missing}: another program left it half-made; "
            "look at it, and remove it or choose another root"
        )
    try:
        layout.parse_layout(raw_layout.value)
        instance = layout.parse_instance_id(raw_instance.value)
    except UnreadableError as error:
        raise ForeignRootError(
            f"{where} is no cluster that this program can use: {error}"
        ) from error
    if not await store.exists(root.own):
        raise ForeignRootError(
            f"{where} was made by Apache BookKeeper and not by zonekeeper ({root.own} is missing): "
            "choose another root, or run `zonekeeper cluster init` if no bookie ever used it"
        )
    return Cluster(store, root, instance)


async def initialise(store: MetadataStore, instance: str, *, also: Sequence[Write] = ()) -> Cluster:
    """Make a cluster, or find it made; ``instance`` is a new UUID, used only if it is made now.

    ``also`` is written in the same transaction, and only if the root is made from nothing.
    """
    root = Root(store.root)
    await _make_ancestors(store, root.path)
    children = await store.children(root.path, sync=True)
    if children:
        if not await store.exists(root.own, sync=True):
            await _take_over(store, root, children)
        return await open_cluster(store)
    writes: list[Write] = [] if children is not None else [Create(path=root.path)]
    writes += [
        Create(path=root.below("INSTANCEID"), value=instance.encode("ascii")),
        Create(path=root.below("LAYOUT"), value=layout.LAYOUT),
        *(Create(path=root.below(name), value=value) for name, value in _BELOW.items()),
        *await _missing_beside(store, root),
        *also,
    ]
    await _commit_once(store, writes)
    return await open_cluster(store)


async def count_bookies(cluster: Cluster) -> Counts:
    """Count bookies by what stands in the store now."""
    store, root = cluster.store, cluster.root
    cookies = await store.children(root.below("cookies"), sync=True)
    writable = await store.children(root.below("available"))
    read_only = await store.children(root.below("available/readonly"))
    return Counts(
        cookies=len(cookies or ()),
        writable=len(set(writable or ()) - {"readonly"}),
        read_only=len(read_only or ()),
    )


async def _make_ancestors(store: MetadataStore, path: str) -> None:
    """Make the nodes above a root: shared with others, so that they are no part of the cluster."""
    parent = parent_of(path)
    if parent == "/" or await store.exists(parent, sync=True):
        return
    try:
        await store.create(parent, make_parents=True)
    except NodeExistsError:
        return
    except StoreError as error:
        if not error.maybe_applied:
            raise


async def _take_over(store: MetadataStore, root: Root, children: Sequence[str]) -> None:
    """Make an empty root of Apache's ours; refuse one that is used."""
    registered = set(await store.children(root.below("available"), sync=True) or ())
    read_only = await store.children(root.below("available/readonly"), sync=True)
    used = sorted({*children} - _FRESH | registered - {"readonly"} | {*(read_only or ())})
    if used:
        raise ForeignRootError(
            f"{root.path} in {store.name} is used by something else (it holds "
            f"{', '.join(used[:5])}): choose another root for this cluster"
        )
    missing = [
        Create(path=root.below(name), value=value)
        for name, value in _BELOW.items()
        if not await store.exists(root.below(name), sync=True)
    ]
    await _commit_once(store, [*missing, *await _missing_beside(store, root)])


async def _missing_beside(store: MetadataStore, root: Root) -> list[Write]:
    """Give what is missing of our own tree: a cluster that was here before may have left it."""
    paths = [root.own, *(root.beside(name) for name in _BESIDE)]
    return [Create(path=path) for path in paths if not await store.exists(path, sync=True)]


async def _commit_once(store: MetadataStore, writes: Sequence[Write]) -> None:
    """Make nodes that another process may be making too; the caller looks at what is there then."""
    try:
        await store.commit(writes)
    except NodeExistsError:
        return
    except StoreError as error:
        if not error.maybe_applied:
            raise
