"""Ledgers with lost copies: the auditor marks them; replicators claim, repair and release them.

A mark names the bookies whose copies are lost; a second mark adds to the first. A *claim* is an
ephemeral lock, with the version of the mark that was read under the lock. To finish a claim removes
the mark only at that version, and only while the checks of the caller hold. So bookies that were
added during the repair stay marked, and so does one that was marked before and is lost once more. A
lost session loses the lock. All writes under a claim are bound to its session, and are refused
then.
"""

import asyncio
from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import underreplication_format
from zonekeeper.metadata.formats.ledger_paths import LEDGER_ID_MAX
from zonekeeper.metadata.formats.malformed import UnreadableError, stored_at
from zonekeeper.metadata.formats.underreplication_format import Underreplicated
from zonekeeper.metadata.store import pruning, update
from zonekeeper.metadata.store.background import together
from zonekeeper.metadata.store.errors import (
    NodeExistsError,
    NoNodeError,
    SessionLostError,
    StoreError,
    VersionConflictError,
)
from zonekeeper.metadata.store.store import (
    Check,
    Create,
    Delete,
    Put,
    SessionId,
    Versioned,
    Write,
    parent_of,
)
from zonekeeper.placement.base.ids import BookieId, LedgerId

READS_IN_FLIGHT_MAX: Final = 32
_ATTEMPTS_MAX: Final = 5
_LEVELS: Final = 4
_FIRST: Final = LedgerId(0)
_LAST: Final = LedgerId(LEDGER_ID_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to repair a ledger, as long as the session lives."""

    ledger_id: LedgerId
    mark: Underreplicated
    #: The version of the mark that was read under the lock.
    version: int
    session: SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLock:
    """A lock that is held; ``holder`` is None if the holder cannot be read."""

    ledger_id: LedgerId
    holder: BookieId | None


# ── marks ──


async def mark(
    cluster: Cluster, ledger_id: LedgerId, lost: Collection[BookieId], *, at_ms: int
) -> None:
    """Mark a ledger's copies on some bookies as lost, in addition to those marked already."""

    def decide(node: Versioned | None) -> update.Decision:
        before = _parse(cluster, ledger_id, node) if node else Underreplicated(replicas=())
        added = tuple(sorted(set(lost) - set(before.replicas)))
        if node is not None and not added:
            return update.Keep()
        marked_ms = at_ms if before.marked_ms is None else before.marked_ms
        after = Underreplicated(replicas=before.replicas + added, marked_ms=marked_ms)
        return update.Store(underreplication_format.render(after))

    path = _mark_path(cluster, ledger_id)
    for attempts_left in reversed(range(_ATTEMPTS_MAX)):
        try:
            await update.update(cluster.store, path, decide)
        except NoNodeError:
            if attempts_left == 0:
                raise
            await _make_parent(cluster, path)
        else:
            return


async def read(cluster: Cluster, ledger_id: LedgerId) -> Underreplicated | None:
    """Read a ledger's mark; None if it is not marked."""
    node = await cluster.store.get(_mark_path(cluster, ledger_id), sync=True)
    return None if node is None else _parse(cluster, ledger_id, node)


async def unmark(
    cluster: Cluster,
    ledger_id: LedgerId,
    returned: Collection[BookieId],
    checks: Collection[Check] = (),
) -> bool:
    """Take returned bookies off the mark of an unclaimed ledger.

    False: the ledger is claimed, or one of ``checks`` does not hold (``finish``). The mark is as it
    was then.

    Only the holder of its lock may remove a mark. Otherwise a claim could be for a mark that was
    removed and made again. Here the lock is taken and given back in the same transaction.
    """
    path, lock = _mark_path(cluster, ledger_id), _lock_path(cluster, ledger_id)
    checked = {check.path for check in checks}
    for attempts_left in reversed(range(_ATTEMPTS_MAX)):
        node = await cluster.store.get(path, sync=True)
        if node is None:
            return True
        before = _parse(cluster, ledger_id, node)
        left = tuple(replica for replica in before.replicas if replica not in returned)
        if left == before.replicas:
            return True
        raw = underreplication_format.render(
            Underreplicated(replicas=left, marked_ms=before.marked_ms)
        )
        change = (
            Put(path=path, value=raw, version=node.version)
            if left
            else Delete(path=path, version=node.version)
        )
        try:
            await cluster.store.commit(
                [
                    Create(path=lock, ephemeral=True),
                    change,
                    Delete(path=lock, version=None),
                    *checks,
                ]
            )
        except NodeExistsError:
            return False
        except (NoNodeError, VersionConflictError) as error:
            if error.path in checked:
                return False
            if attempts_left == 0:
                raise
        except StoreError as error:
            if not error.maybe_applied or attempts_left == 0:
                raise
        else:
            if not left:
                await pruning.prune(cluster.store, path, below=_marks(cluster))
            return True
    raise AssertionError("the last attempt returns or raises")


async def ids(
    cluster: Cluster, *, first: LedgerId = _FIRST, last: LedgerId = _LAST
) -> AsyncGenerator[LedgerId, None]:
    """List the marked ledgers from ``first`` to ``last``, both included, in ascending order."""
    low, high = f"{first:016x}", f"{last:016x}"
    todo = [("", "")]  # directories to read, the next one last: digits so far, path
    while todo:
        digits, directory = todo.pop()
        names = await cluster.store.children(_marks(cluster) + directory) or ()
        if len(digits) == 4 * _LEVELS:
            for name in names:
                found = underreplication_format.parse_ledger_path(f"{directory}/{name}")
                if found is not None and first <= found <= last:
                    yield found
            continue
        below = [(digits + name, f"{directory}/{name}") for name in names]
        todo += reversed([(d, path) for d, path in below if low[: len(d)] <= d <= high[: len(d)]])


# ── claims ──


async def claim(cluster: Cluster, ledger_id: LedgerId, worker: BookieId) -> Claim | None:
    """Take a ledger's lock; None if another process has it, or the ledger is not marked."""
    session = _session(cluster)
    if not await _locked(cluster, ledger_id, worker, session):
        return None
    node = await cluster.store.get(_mark_path(cluster, ledger_id), sync=True)
    if node is None:
        await _unlock(cluster, ledger_id, session)
        return None
    try:
        found = _parse(cluster, ledger_id, node)
    except UnreadableError:
        await _unlock(cluster, ledger_id, session)
        raise
    return Claim(
        ledger_id=ledger_id,
        mark=found,
        version=node.version,
        session=session,
    )


async def finish(cluster: Cluster, claim: Claim, checks: Collection[Check] = ()) -> bool:
    """Remove mark and lock of a repaired ledger; False if more was lost, and it stays marked.

    One of ``checks`` that does not hold says that more was lost: a bookie that the mark names is in
    another start than the one that was looked at. A second mark of the same bookie changes nothing,
    so the version of the mark alone does not tell that.

    The claim is over in either case. Raises ``SessionLostError`` if it was over before.

    While we hold the lock no other process removes the mark, and none makes a new one in its place.
    An attempt whose answer was lost may have released the lock. So the lock is read before the next
    attempt.
    """
    path = _mark_path(cluster, claim.ledger_id)
    writes: list[Write] = [
        Delete(path=path, version=claim.version),
        Delete(path=_lock_path(cluster, claim.ledger_id), version=None),
        *checks,
    ]
    for attempts_left in reversed(range(_ATTEMPTS_MAX)):
        try:
            await cluster.store.commit(writes, session=claim.session)
        except (VersionConflictError, NoNodeError):
            # Marked again, a check that fails, or an attempt before whose answer was lost: the node
            # itself tells whether the mark is gone.
            break
        except StoreError as error:
            if not error.maybe_applied or attempts_left == 0:
                raise
            if not await holds(cluster, claim):
                break
        else:
            await pruning.prune(cluster.store, path, below=_marks(cluster))
            return True
    await release(cluster, claim)
    return not await cluster.store.exists(path, sync=True)


async def release(cluster: Cluster, claim: Claim) -> None:
    """Give a claim back; the ledger stays marked. A lost claim counts as given back."""
    try:
        await _unlock(cluster, claim.ledger_id, claim.session)
    except SessionLostError:
        return


def check_of(cluster: Cluster, claim: Claim) -> Check:
    """Give the part of a transaction that lets it pass only under the claim's lock.

    It is to be committed in the claim's session, whose end removes the lock.
    """
    return Check(path=_lock_path(cluster, claim.ledger_id), version=None)


async def holds(cluster: Cluster, claim: Claim) -> bool:
    """Does the claim's session hold the ledger's lock?"""
    node = await cluster.store.get(_lock_path(cluster, claim.ledger_id), sync=True)
    return node is not None and node.owner == claim.session


async def held(cluster: Cluster) -> list[HeldLock]:
    """List the locks that are held now, by ledger."""
    directory = cluster.root.below("underreplication/locks")
    names = await cluster.store.children(directory, sync=True) or ()
    found = {
        ledger_id: name
        for name in names
        if (ledger_id := underreplication_format.parse_lock_name(name)) is not None
    }
    gate = asyncio.Semaphore(READS_IN_FLIGHT_MAX)

    async def look(ledger_id: LedgerId, name: str) -> HeldLock | None:
        async with gate:
            node = await cluster.store.get(f"{directory}/{name}")
        if node is None:
            return None
        try:
            holder = underreplication_format.parse_holder(node.value)
        except UnreadableError:
            return HeldLock(ledger_id=ledger_id, holder=None)
        return HeldLock(ledger_id=ledger_id, holder=holder)

    looked_at = await together(look(*item) for item in sorted(found.items()))
    return [one for one in looked_at if one is not None]


# ── how it is done ──


async def _locked(
    cluster: Cluster, ledger_id: LedgerId, worker: BookieId, session: SessionId
) -> bool:
    path, value = _lock_path(cluster, ledger_id), underreplication_format.render_holder(worker)
    doubted = False
    for attempts_left in reversed(range(_ATTEMPTS_MAX)):
        try:
            await cluster.store.create(
                path, value, ephemeral=True, make_parents=True, session=session
            )
        except NodeExistsError:
            # It is ours only if an earlier attempt of ours had an unknown outcome.
            node = await cluster.store.get(path, sync=True) if doubted else None
            return node is not None and (node.owner, node.value) == (session, value)
        except StoreError as error:
            if not error.maybe_applied or attempts_left == 0:
                raise
            doubted = True
        else:
            return True
    raise AssertionError("the last attempt returns or raises")


async def _unlock(cluster: Cluster, ledger_id: LedgerId, session: SessionId) -> None:
    path = _lock_path(cluster, ledger_id)
    for attempts_left in reversed(range(_ATTEMPTS_MAX)):
        node = await cluster.store.get(path, sync=True)
        if node is None or node.owner != session:
            return
        try:
            await cluster.store.delete(path, version=node.version, session=session)
        except NoNodeError:
            return
        except StoreError as error:
            if not error.maybe_applied or attempts_left == 0:
                raise
        else:
            return


def _parse(cluster: Cluster, ledger_id: LedgerId, node: Versioned) -> Underreplicated:
    with stored_at(_mark_path(cluster, ledger_id), cluster.store.name):
        return underreplication_format.parse(node.value)


def _session(cluster: Cluster) -> SessionId:
    session = cluster.store.session.id
    if session is None:
        raise SessionLostError("has no session now", store=cluster.store.name)
    return session


async def _make_parent(cluster: Cluster, path: str) -> None:
    try:
        await cluster.store.create(parent_of(path), make_parents=True)
    except NodeExistsError:
        return
    except StoreError as error:
        if not error.maybe_applied:
            raise


def _marks(cluster: Cluster) -> str:
    return cluster.root.below("underreplication/ledgers")


def _mark_path(cluster: Cluster, ledger_id: LedgerId) -> str:
    return _marks(cluster) + underreplication_format.ledger_path(ledger_id)


def _lock_path(cluster: Cluster, ledger_id: LedgerId) -> str:
    name = underreplication_format.lock_name(ledger_id)
    return cluster.root.below(f"underreplication/locks/{name}")
