"""Ledgers in the store: create, read, change, delete.

A change is a function from the present metadata to the wanted metadata (``ledger_metadata`` has
such functions). It is called again if another client was faster or an answer was lost. So a change
is never applied to metadata that it was not decided for. To create a ledger needs no bookie.

The absence of a ledger proves its deletion only under three conditions: the root is whole, it is
still the cluster that was opened, and nothing was restored from an older export
(``proven_deleted``). The same holds for the end of a closed ledger (``proven_ends``), which never
changes.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from zonekeeper.metadata.cluster import restored
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import ledger_format, ledger_metadata, ledger_paths
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata, LedgerState
from zonekeeper.metadata.formats.malformed import UnreadableError, stored_at
from zonekeeper.metadata.ledgers import deletions, ledger_ids
from zonekeeper.metadata.ledgers.deletions import Deleter
from zonekeeper.metadata.store import pruning, update
from zonekeeper.metadata.store.errors import (
    NodeExistsError,
    NoNodeError,
    StoreError,
    VersionConflictError,
)
from zonekeeper.metadata.store.store import Create, Delete, Versioned, Written
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.placement.base.troubles import Refusal, Trouble

#: If this many drawn ids in a row belong to other ledgers, the id counters are wrong.
_ID_ATTEMPTS_MAX: Final = 10
_WRITE_ATTEMPTS_MAX: Final = 5

#: Gives the wanted metadata of a ledger; None to write nothing.
Change: TypeAlias = Callable[[LedgerMetadata], LedgerMetadata | None]


class LedgerExistsError(Trouble):
    """Another ledger has this id."""


class LostIdError(Refusal):
    """The root was restored, and a ledger that it does not know may have this id."""


class NoLedgerError(Trouble):
    """There is no such ledger: it was deleted, or never created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLedger:
    """A ledger as it was read."""

    id: LedgerId
    metadata: LedgerMetadata
    version: int


def path(cluster: Cluster, ledger_id: LedgerId) -> str:
    """Give the path of a ledger's node."""
    return cluster.root.path + ledger_paths.path(ledger_id)


async def create(
    cluster: Cluster,
    metadata: LedgerMetadata,
    *,
    ledger_id: LedgerId | None = None,
    rebuilt: bool = False,
) -> StoredLedger:
    """Create a ledger, with a new id unless one is given.

    In a restored root an id that a lost ledger may have is refused, unless the ledger is rebuilt.

    ``metadata`` has a random create token. If the answer to the creation was lost, the caller
    recognises its ledger by the token. The call may be repeated with the same token and id.
    """
    assert metadata.create_token > 0, "a ledger is created with a token"
    if ledger_id is not None:
        if not rebuilt:
            await _refuse_lost(cluster, ledger_id)
        if (created := await _create(cluster, ledger_id, metadata)) is not None:
            return created
        raise LedgerExistsError(f"ledger {ledger_id} exists in {cluster}")
    for _ in range(_ID_ATTEMPTS_MAX):
        drawn = await ledger_ids.allocate(cluster)
        if (created := await _create(cluster, drawn, metadata, is_new=True)) is not None:
            return created
    raise LedgerExistsError(
        f"{_ID_ATTEMPTS_MAX} new ids in a row were taken in {cluster}: its id counters are behind "
        "its ledgers; restore it with `zonekeeper metadata import`, which moves them on"
    )


async def read(cluster: Cluster, ledger_id: LedgerId, *, sync: bool = False) -> StoredLedger | None:
    """Read a ledger; None if the store shows none. Raises ``UnreadableError`` for damage."""
    node = await cluster.store.get(path(cluster, ledger_id), sync=sync)
    return None if node is None else _read(cluster, ledger_id, node.value, node.version)


async def change(
    cluster: Cluster,
    ledger_id: LedgerId,
    decide: Change,
    *,
    alongside: update.Alongside = update.nothing,
) -> StoredLedger:
    """Change a ledger, and give it as it then is. Raises ``NoLedgerError`` if there is none.

    The result of ``decide`` must be a legal change of the metadata that it was given. The change is
    made only while the checks of ``alongside`` hold.
    """

    def decide_bytes(node: Versioned | None) -> update.Decision:
        if node is None:
            raise NoLedgerError(f"there is no ledger {ledger_id} in {cluster}")
        before = _read(cluster, ledger_id, node.value, node.version).metadata
        after = decide(before)
        if after is None or after == before:
            return update.Keep()
        ledger_metadata.check_update(before, after)
        return update.Store(ledger_format.render(after))

    standing = await update.update(
        cluster.store, path(cluster, ledger_id), decide_bytes, alongside=alongside
    )
    assert standing is not None, "an absent ledger raises"
    return _read(cluster, ledger_id, standing.value, standing.version)


async def delete(
    cluster: Cluster, ledger_id: LedgerId, deleter: Deleter, *, version: int | None = None
) -> None:
    """Delete a ledger, at a version or at any; it counts as done if the ledger is gone already.

    The deletion and its record (``deletions``) are of one transaction. An error says
    ``maybe_applied`` also if only an earlier attempt may have been applied.
    """
    where = path(cluster, ledger_id)
    await _delete(cluster, where, ledger_id, deleter, version)
    await pruning.prune(cluster.store, where, below=cluster.root.path)


async def _delete(
    cluster: Cluster, where: str, ledger_id: LedgerId, deleter: Deleter, version: int | None
) -> None:
    removal = Delete(path=where, version=version)
    note = deletions.noted(cluster, [ledger_id], deleter)
    in_doubt = False
    try:
        for attempts_left in reversed(range(_WRITE_ATTEMPTS_MAX)):
            try:
                written = await _removed(cluster, removal, note)
            except StoreError as error:
                if isinstance(error, NoNodeError) and error.path == where:
                    return
                in_doubt = in_doubt or error.maybe_applied
                if not in_doubt or attempts_left == 0:
                    raise
                if not await cluster.store.exists(where, sync=True):
                    return
            else:
                await deletions.tidied(cluster, written, now_ms=deleter.at_ms)
                return
    except StoreError as error:
        error.maybe_applied = error.maybe_applied or in_doubt
        raise


async def _removed(cluster: Cluster, removal: Delete, note: Create) -> Written:
    """Remove a ledger and leave the record of it; the first record needs its directory.

    To make that is a part of the attempt: an earlier one may have been lost before it got there.
    """
    try:
        _, written = await cluster.store.commit([removal, note])
    except NoNodeError as error:
        if error.path == removal.path:
            raise
        with suppress(NodeExistsError):
            await cluster.store.create(deletions.directory(cluster))
        _, written = await cluster.store.commit([removal, note])
    return written


async def proven_deleted(cluster: Cluster, ledger_id: LedgerId) -> bool:
    """Is it proven that this ledger is deleted for good? False if it exists, or without proof.

    Raises if the store gives no answer; nothing may be deleted after an error.
    """
    if await cluster.store.get(path(cluster, ledger_id), sync=True) is not None:
        return False
    return await is_whole(cluster)


async def proven_replaced(cluster: Cluster, ledger_id: LedgerId, create_token: int) -> bool:
    """Is it proven that the ledger with this token was deleted, and another has its id now?

    False without proof. Raises if the store gives no answer; nothing may be deleted after an error.
    """
    try:
        stored = await read(cluster, ledger_id, sync=True)
    except UnreadableError:
        return False
    if stored is None or not (create_token and stored.metadata.create_token):
        return False
    return stored.metadata.create_token != create_token and await is_whole(cluster)


async def proven_ends(cluster: Cluster, ledger_ids: Iterable[LedgerId]) -> dict[LedgerId, EntryId]:
    """Give the last entries of those of these ledgers that are proven to be closed.

    A ledger that is not in the result is open, or unknown. Raises if nothing can be known.
    """
    found: dict[LedgerId, EntryId] = {}
    for ledger_id in ledger_ids:
        try:
            stored = await read(cluster, ledger_id)
        except UnreadableError:
            continue  # this says nothing about the other ledgers
        if stored is not None and stored.metadata.state is LedgerState.CLOSED:
            found[ledger_id] = stored.metadata.last_entry
    # A root that was made again, or set back, may have other ledgers with the same ids.
    return found if found and await is_whole(cluster) else {}


async def is_whole(cluster: Cluster) -> bool:
    """Is the root still the cluster that was opened, and was nothing in it restored?"""
    instance = await cluster.store.get(cluster.root.below("INSTANCEID"), sync=True)
    if instance is None or instance.value != cluster.instance.encode("ascii"):
        return False
    return await restored.read(cluster) is None


async def _refuse_lost(cluster: Cluster, ledger_id: LedgerId) -> None:
    """Refuse an id that a ledger may have that the root lost when it was set back."""
    mark = await restored.read(cluster)
    if mark is not None and ledger_id < mark.high << 32:
        raise LostIdError(
            f"ledger {ledger_id} may be on bookies: {cluster} is marked as restored, and knows for "
            f"certain only of ids from {mark.high << 32} on that no ledger had; give a higher id, "
            "or none, or see `zonekeeper metadata restored`"
        )


def _read(cluster: Cluster, ledger_id: LedgerId, raw: bytes, version: int) -> StoredLedger:
    with stored_at(path(cluster, ledger_id), cluster.store.name):
        metadata = ledger_format.parse(raw)
    return StoredLedger(id=ledger_id, metadata=metadata, version=version)


async def _create(
    cluster: Cluster, ledger_id: LedgerId, metadata: LedgerMetadata, *, is_new: bool = False
) -> StoredLedger | None:
    """Create a ledger with an id; None if the id cannot be used.

    ``is_new``: no ledger had the id before. If the answer to the creation is lost, and the ledger
    is not there, it was perhaps created and deleted since. It is not made again under this id:
    bookies may have collected it, and know its token as that of a deleted ledger.

    An error says ``maybe_applied`` also if only an earlier attempt may have been applied.
    """
    where, value = path(cluster, ledger_id), ledger_format.render(metadata)
    in_doubt = False
    try:
        for attempts_left in reversed(range(_WRITE_ATTEMPTS_MAX)):
            try:
                if in_doubt and is_new:
                    there = await read(cluster, ledger_id, sync=True)
                    return there if _is(there, metadata) else None
                await cluster.store.create(where, value, make_parents=True)
            except NodeExistsError:
                there = await read(cluster, ledger_id, sync=True)
                if there is not None:
                    return there if _is(there, metadata) else None
            except StoreError as error:
                if not error.maybe_applied or attempts_left == 0:
                    raise
                in_doubt = True
            else:
                return StoredLedger(id=ledger_id, metadata=metadata, version=0)
        raise VersionConflictError(
            "comes and goes while it is created", store=cluster.store.name, path=where
        )
    except StoreError as error:
        error.maybe_applied = error.maybe_applied or in_doubt
        raise


def _is(there: StoredLedger | None, wanted: LedgerMetadata) -> bool:
    """Is this the ledger that was to be created? Its creator drew the token."""
    return there is not None and there.metadata.create_token == wanted.create_token
