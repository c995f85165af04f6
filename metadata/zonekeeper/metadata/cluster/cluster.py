"""A cluster in a store: made once and completely, then opened by every process that works with it.

Everything that makes a root a cluster is written in one transaction, so that a crash cannot leave
half of a cluster. If the cluster exists, making it again only finds it. A root with anything else
in it is refused: if bookies of a Java cluster and ours were under one root, clients would choose
bookies that they cannot speak to. An empty root that Apache's ``initnewcluster`` made is taken
over. The node of our own tree names its instance, so that a tree that an earlier cluster left does
not make a root ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.formats import underreplication_format
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.store import layout
from zonekeeper.metadata.store.errors import NodeExistsError, StoreError
from zonekeeper.metadata.store.layout import Root
from zonekeeper.metadata.store.store import Create, MetadataStore, Put, Write, parent_of
from zonekeeper.placement.base.troubles import Refusal

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
#: The directories of our own tree that every new root has.
BESIDE: Final = ("bookies", "maintenance", "timeline", "zone-watch", "zones")

_ATTEMPTS_MAX: Final = 5
#: A message names at most this many bookies or nodes.
_NAMED_MAX: Final = 5

#: The nodes that ``initnewcluster`` makes; it makes no others.
_FRESH: Final = frozenset({"LAYOUT", "INSTANCEID", "available"})


class NotAClusterError(Refusal):
    """There is no cluster at this root: none was made yet, or the address is wrong."""

    retryable = True


class ForeignRootError(Refusal):
    """Something else stands at this root, so no cluster of ours can."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that was found in a store; every operation on its metadata takes it."""

    store: MetadataStore
    root: Root
    instance: str

    def __str__(self) -> str:
        return f"{self.root.path} in {self.store.name} (instance {self.instance})"


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieCounts:
    """The number of bookies that a cluster knows, and of those that are registered."""

    cookies: int
    writable: int
    read_only: int


async def open_cluster(store: MetadataStore) -> Cluster:
    """Find the cluster at the store's root; raises ``NotAClusterError`` or ``ForeignRootError``."""
    root = Root(store.root)
    instance = await _instance(store, root)
    where = f"{root.path} in {store.name}"
    if instance is None:
        raise NotAClusterError(
            f"there is no cluster at {where}: initialise it with `zonekeeper cluster init`, "
            "or correct the root in the store's address"
        )
    if not await _is_ours(store, root, instance):
        raise ForeignRootError(
            f"{where} was made by Apache BookKeeper and not by zonekeeper ({root.own} does not "
            "name it): choose another root, or run `zonekeeper cluster init` if no bookie ever "
            "used it"
        )
    return Cluster(store, root, instance)


async def initialise(store: MetadataStore, instance: str, *, also: Sequence[Write] = ()) -> Cluster:
    """Make a cluster, or find it; ``instance`` is a new UUID, used only if the cluster is made now.

    ``also`` is written in the same transaction, and only if the root is made from nothing.
    """
    for attempts_left in reversed(range(_ATTEMPTS_MAX)):
        try:
            await _initialise(store, instance, also)
        except NodeExistsError:
            # Another client makes it at the same moment: look at what is there now.
            if attempts_left == 0:
                raise
        except StoreError as error:
            if not error.maybe_applied or attempts_left == 0:
                raise
        else:
            break
    return await open_cluster(store)


async def _initialise(store: MetadataStore, instance: str, also: Sequence[Write]) -> None:
    root = Root(store.root)
    parent = parent_of(root.path)
    if parent != "/" and not await store.exists(parent, sync=True):
        await store.create(parent, make_parents=True)  # not a part of the cluster: others use it
    children = await store.children(root.path, sync=True)
    if not children:
        await store.commit(
            [
                *([] if children is not None else [Create(path=root.path)]),
                Create(path=root.below("INSTANCEID"), value=instance.encode("ascii")),
                Create(path=root.below("LAYOUT"), value=layout.LAYOUT),
                *(Create(path=root.below(name), value=value) for name, value in _BELOW.items()),
                *await _own_tree(store, root, instance),
                *also,
            ]
        )
        return
    standing = await _instance(store, root)
    if standing is not None and await _is_ours(store, root, standing):
        return
    await _refuse_used(store, root, children)
    if standing is not None:
        missing = [
            Create(path=root.below(name), value=value)
            for name, value in _BELOW.items()
            if not await store.exists(root.below(name), sync=True)
        ]
        await store.commit([*missing, *await _own_tree(store, root, standing)])


async def count_bookies(cluster: Cluster) -> BookieCounts:
    """Count bookies by their nodes in the store."""
    store, root = cluster.store, cluster.root
    cookies = await store.children(root.below("cookies"), sync=True)
    writable = await store.children(root.below("available"))
    read_only = await store.children(root.below("available/readonly"))
    return BookieCounts(
        cookies=len(cookies or ()),
        writable=len(set(writable or ()) - {"readonly"}),
        read_only=len(read_only or ()),
    )


async def _instance(store: MetadataStore, root: Root) -> str | None:
    """Read the root's instance; None if it has none. Raises ``ForeignRootError`` if not ours."""
    raw_layout = await store.get(root.below("LAYOUT"), sync=True)
    raw_instance = await store.get(root.below("INSTANCEID"), sync=True)
    where = f"{root.path} in {store.name}"
    if raw_layout is None and raw_instance is None:
        return None
    if raw_layout is None or raw_instance is None:
        missing = "LAYOUT" if raw_layout is None else "INSTANCEID"
        raise ForeignRootError(
            f"{where} has no {missing}: another program left it half-made; "
            "look at it, and remove it or choose another root"
        )
    try:
        layout.parse_layout(raw_layout.value)
        return layout.parse_instance_id(raw_instance.value)
    except UnreadableError as error:
        raise ForeignRootError(
            f"{where} is no cluster that this program can use: {error}"
        ) from error


async def _is_ours(store: MetadataStore, root: Root, instance: str) -> bool:
    own = await store.get(root.own, sync=True)
    return own is not None and own.value == instance.encode("ascii")


async def _refuse_used(store: MetadataStore, root: Root, children: Sequence[str]) -> None:
    """Refuse a root of Apache's if a client or a bookie has ever used it."""
    registered = set(await store.children(root.below("available"), sync=True) or ())
    read_only = await store.children(root.below("available/readonly"), sync=True)
    used = sorted({*children} - _FRESH | registered - {"readonly"} | {*(read_only or ())})
    if used:
        raise ForeignRootError(
            f"{root.path} in {store.name} is used by something else (it holds "
            f"{', '.join(used[:_NAMED_MAX])}): choose another root for this cluster"
        )


async def _own_tree(store: MetadataStore, root: Root, instance: str) -> list[Write]:
    """Give the writes that make our own tree; an earlier cluster may have left parts of it."""
    value = instance.encode("ascii")
    left = await store.get(root.own, sync=True)
    paths = [root.beside(name) for name in BESIDE]
    return [
        Create(path=root.own, value=value)
        if left is None
        else Put(path=root.own, value=value, version=left.version),
        *[Create(path=path) for path in paths if not await store.exists(path, sync=True)],
    ]
