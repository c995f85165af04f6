"""Cookies in the store: the authority on which bookies exist, and on their locations."""

from collections.abc import Callable
from dataclasses import dataclass

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import cookies
from zonekeeper.metadata.formats.cookies import Cookie
from zonekeeper.metadata.formats.malformed import stored_at
from zonekeeper.metadata.store import update
from zonekeeper.metadata.store.errors import NoNodeError, StoreError
from zonekeeper.metadata.store.store import Check, Versioned
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.troubles import Refusal


class NoCookieError(Refusal):
    """The bookie has no cookie: it never registered here, or was removed."""


class CookieExistsError(Refusal):
    """Another cookie stands under this bookie's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCookie:
    """A cookie as it was read."""

    cookie: Cookie
    version: int


async def ids(cluster: Cluster) -> list[BookieId]:
    """Give the bookies that have a cookie, sorted."""
    names = await cluster.store.children(cluster.root.below("cookies"), sync=True)
    return [BookieId(name) for name in names or () if cookies.is_bookie_id(name)]


async def read(cluster: Cluster, bookie: BookieId) -> StoredCookie | None:
    """Read a bookie's cookie; None if it has none. Raises ``UnreadableError`` for damage."""
    node = await cluster.store.get(cluster.root.cookie(bookie), sync=True)
    if node is None:
        return None
    return StoredCookie(cookie=_parse(cluster, bookie, node.value), version=node.version)


async def check(cluster: Cluster, bookie: BookieId) -> Check:
    """Give what lets a transaction pass only while the cookie stands as it does now."""
    where = cluster.root.cookie(bookie)
    node = await cluster.store.get(where, sync=True)
    if node is None:
        raise NoCookieError(f"{bookie} has no cookie in {cluster}: it was removed, or never there")
    return Check(path=where, version=node.version)


async def create(cluster: Cluster, cookie: Cookie) -> None:
    """Write the first cookie of a bookie; it counts as done if the same one is there already."""
    raw = cookies.render(cookie)

    def decide(node: Versioned | None) -> update.Decision:
        if node is None:
            return update.Store(raw)
        if node.value == raw:
            return update.Keep()
        raise CookieExistsError(
            f"{cookie.bookie} has a cookie in {cluster} already, and it is not the one that this "
            "bookie would write: another bookie has this name, or this one's disks were changed"
        )

    await update.update(cluster.store, cluster.root.cookie(cookie.bookie), decide)


async def settle_location(cluster: Cluster, bookie: BookieId, location: Location | None) -> Cookie:
    """Update the location in a starting bookie's cookie, or refuse it: ``cookies.located``."""
    return await _change(cluster, bookie, lambda cookie: cookies.located(cookie, location))


async def move(cluster: Cluster, bookie: BookieId, location: Location) -> Cookie:
    """Give a bookie another location, in any zone: only for an explicit command of a person."""
    return await _change(cluster, bookie, lambda cookie: cookie.at(location))


async def delete(cluster: Cluster, bookie: BookieId, *, version: int) -> None:
    """Remove the cookie of a bookie that is gone for good; it may be removed already."""
    path = cluster.root.cookie(bookie)
    try:
        await cluster.store.delete(path, version=version)
    except NoNodeError:
        return
    except StoreError as error:
        if not error.maybe_applied or await cluster.store.exists(path, sync=True):
            raise


async def _change(cluster: Cluster, bookie: BookieId, decide: Callable[[Cookie], Cookie]) -> Cookie:
    def decide_bytes(node: Versioned | None) -> update.Decision:
        if node is None:
            raise NoCookieError(f"{bookie} has no cookie in {cluster}")
        before = _parse(cluster, bookie, node.value)
        after = decide(before)
        return update.Keep() if after == before else update.Store(cookies.render(after))

    standing = await update.update(cluster.store, cluster.root.cookie(bookie), decide_bytes)
    assert standing is not None, "an absent cookie raises"
    return _parse(cluster, bookie, standing.value)


def _parse(cluster: Cluster, bookie: BookieId, raw: bytes) -> Cookie:
    with stored_at(cluster.root.cookie(bookie), cluster.store.name):
        return cookies.parse(raw)
