"""Vouchers: a repair's word that a bookie has all entries of a ledger again, in one of its starts.

A bookie with a replaced disk is in limbo for its ledgers: it denies no entry. Were its limbo ended
for a ledger that it does not have in full, a recovery would count its "no", and acknowledged
entries would be lost. So a bookie ends a limbo only if it reads a voucher here, by a read of its
own behind all writes. Whoever can merely send a bookie requests has none to show.

A voucher is written in one transaction with a check of the claim's lock: only the repair that holds
the ledger's claim vouches. It is ephemeral, and taken back when the bookie has answered. So none
outlives the repair, and of one bookie and ledger there is one at most. It names a start (boot
epoch): in another start the disk may be another one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.cluster import record_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.record_store import Codec
from zonekeeper.metadata.formats import records
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.metadata.ledgers.underreplication import Claim
from zonekeeper.metadata.store.errors import (
    NodeExistsError,
    NoNodeError,
    StoreError,
    VersionConflictError,
)
from zonekeeper.metadata.store.store import Create, Delete, Write, parent_of
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import BookieId, LedgerId

_ATTEMPTS_MAX: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Voucher:
    """The start of the bookie in which a repair has found, or put, every entry there."""

    boot_epoch: int


def _plain(voucher: Voucher) -> dict[str, Plain]:
    return {"bootEpoch": voucher.boot_epoch}


def _voucher(data: Mapping[str, Plain]) -> Voucher:
    return Voucher(boot_epoch=records.number(data, "bootEpoch"))


CODEC: Final = Codec(render=_plain, parse=_voucher)


async def read(cluster: Cluster, ledger_id: LedgerId, bookie: BookieId) -> Voucher | None:
    """Read the voucher for a bookie's copy of a ledger, behind all writes; None: there is none."""
    return await record_store.read(cluster, _path(cluster, ledger_id, bookie), CODEC)


async def vouch(cluster: Cluster, claim: Claim, bookie: BookieId, boot_epoch: int) -> None:
    """Write a voucher, in place of one that an earlier repair left; the claim must still stand.

    Raises ``SessionLostError`` or ``NoNodeError`` if the claim is over.
    """
    path = _path(cluster, claim.ledger_id, bookie)
    value = records.render(_plain(Voucher(boot_epoch=boot_epoch)), cluster.instance)
    for attempts_left in reversed(range(_ATTEMPTS_MAX)):
        standing = await cluster.store.get(path, sync=True)
        writes: list[Write] = [underreplication.check_of(cluster, claim)]
        if standing is not None:
            if (standing.owner, standing.value) == (claim.session, value):
                return
            writes.append(Delete(path=path, version=standing.version))
        writes.append(Create(path=path, value=value, ephemeral=True))
        try:
            await cluster.store.commit(writes, session=claim.session)
        except NoNodeError:
            if attempts_left == 0 or not await underreplication.holds(cluster, claim):
                raise
            await _make_directory(cluster, path)
        except (NodeExistsError, VersionConflictError):
            if attempts_left == 0:
                raise
        except StoreError as error:
            if not error.maybe_applied or attempts_left == 0:
                raise
        else:
            return


async def take_back(cluster: Cluster, claim: Claim, bookie: BookieId) -> None:
    """Remove a voucher of this claim's session; a lost session has removed it."""
    path = _path(cluster, claim.ledger_id, bookie)
    for attempts_left in reversed(range(_ATTEMPTS_MAX)):
        standing = await cluster.store.get(path, sync=True)
        if standing is None or standing.owner != claim.session:
            return
        try:
            await cluster.store.delete(path, version=standing.version)
        except (NoNodeError, VersionConflictError):
            continue
        except StoreError as error:
            if not error.maybe_applied or attempts_left == 0:
                raise


async def _make_directory(cluster: Cluster, path: str) -> None:
    try:
        await cluster.store.create(parent_of(path), make_parents=True)
    except NodeExistsError:
        return
    except StoreError as error:
        if not error.maybe_applied:
            raise


def _path(cluster: Cluster, ledger_id: LedgerId, bookie: BookieId) -> str:
    return cluster.root.beside(f"vouchers/{bookie}.{ledger_id}")
