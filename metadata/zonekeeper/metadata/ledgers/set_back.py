"""Marking a root whose metadata was set back to an older state.

The mark and a fresh high part for new ids are of one transaction, as in an import. So no id is
given out below what any bookie knew, from the moment on at which the mark stands. If the mark
stands already, the evidence is added to it: a person then accepts all of it together.

A bookie may bring evidence that a person accepts at the same moment. A person's word is written
before the mark is removed. So where no mark stands any more, the word is read after that, and
evidence that it accepts sets no mark.
"""

from dataclasses import replace
from typing import Final

from zonekeeper.metadata.cluster import evidence, restored
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.evidence import EvidenceKind, Proofs
from zonekeeper.metadata.cluster.restored import EVIDENCE_MAX, Restored
from zonekeeper.metadata.formats.malformed import stored_at
from zonekeeper.metadata.formats.records import ForeignRecordError
from zonekeeper.metadata.ledgers import ledger_ids
from zonekeeper.metadata.store.errors import (
    NodeExistsError,
    NoNodeError,
    StoreError,
    VersionConflictError,
)
from zonekeeper.metadata.store.store import Create, Put, Versioned, Write

#: A few bookies find the same thing at the same time.
_ATTEMPTS_MAX: Final = 20


async def mark(cluster: Cluster, proofs: Proofs, *, now_ms: int) -> bool:
    """Mark the root as restored, and name the evidence; False: it is named or accepted already.

    ``now_ms`` is wall time. Raises ``UnreadableError`` if a mark stands that cannot be read.
    """
    assert proofs, "a root is marked with evidence"
    for attempts_left in reversed(range(_ATTEMPTS_MAX)):
        writes = await _writes(cluster, proofs, now_ms)
        if not writes:
            return False
        try:
            await cluster.store.commit(writes)
        except (NodeExistsError, NoNodeError, VersionConflictError):
            if attempts_left == 0:
                raise
        except StoreError as error:
            if not error.maybe_applied or attempts_left == 0:
                raise
        else:
            return True
    raise AssertionError("the last attempt returns or raises")


async def _writes(cluster: Cluster, proofs: Proofs, now_ms: int) -> list[Write]:
    path = cluster.root.beside("restored")
    node = await cluster.store.get(path, sync=True)
    standing = None if node is None else _read(cluster, path, node)
    if standing is None:
        accepted = await restored.accepted(cluster)
        proofs = tuple(one for one in proofs if not accepted.names(one))
        if not proofs:
            return []
    highs = await ledger_ids.counted_highs(cluster)
    counted = max(highs or (), default=0)
    known = max((one.known >> 32 for one in proofs if one.kind is EvidenceKind.IDS), default=0)
    wanted = replace(
        standing or Restored(at_ms=now_ms, high=counted),
        evidence=evidence.merged(standing.evidence if standing else (), proofs, limit=EVIDENCE_MAX),
    )
    writes: list[Write] = []
    if standing is None or known >= counted:
        fresh = ledger_ids.fresh_high(counted=counted, used=known, now_ms=now_ms)
        wanted = replace(wanted, high=fresh)
        above = cluster.root.below("idgen-long")
        writes += [] if highs is not None else [Create(path=above)]
        writes.append(Create(path=f"{above}/{ledger_ids.high_directory(fresh)}"))
    if wanted == standing:
        return []
    value = restored.render(wanted, cluster.instance)
    if node is None:
        return [Create(path=path, value=value), *writes]
    return [Put(path=path, value=value, version=node.version), *writes]


def _read(cluster: Cluster, path: str, node: Versioned) -> Restored | None:
    with stored_at(path, cluster.store.name):
        try:
            return restored.parse(node.value, cluster.instance)
        except ForeignRecordError:
            return None  # it is of an earlier cluster at this root
