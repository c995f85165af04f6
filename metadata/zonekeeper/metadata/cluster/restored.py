"""The mark of a restored root: data that the root does not know may still be wanted.

An import sets the mark before it writes anything else. A bookie sets it when it has evidence that
the store was set back (``ledgers.set_back``). Ledgers that were created after the older state are
not in the root, but bookies hold them. While the mark stands, bookies delete nothing, and new ids
come from a high part that no ledger has had. A person clears the mark once `metadata rebuild` has
found the ledgers that the root lacks.

To clear the mark is to accept what it names, and no more: the import, and the evidence. What was
accepted stands in a node beside the mark. It is written before the mark is removed. So a crash
between the two leaves the mark, and the person clears it again.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Final

from zonekeeper.metadata.cluster import record_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.evidence import Accepted, EvidenceKind, Proofs, StoreEvidence
from zonekeeper.metadata.cluster.record_store import Codec
from zonekeeper.metadata.formats import records
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnreadableError, stored_at
from zonekeeper.metadata.formats.records import ForeignRecordError
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.troubles import Refusal

#: The mark names at most so much evidence: each takes about 100 bytes of its node.
EVIDENCE_MAX: Final = 2_000


class RestoredAgainError(Refusal):
    """The mark is not the one that was decided on: there is another import, or more evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The mark, with what later imports, writers and people need to know."""

    at_ms: int
    #: The high part of the ids that are given out since the import.
    high: int
    #: The checksum of the export, by which the same import is recognised when it is run again.
    #: Empty: nothing was imported, and bookies have evidence.
    export: str = ""
    #: The evidence of bookies, sorted: one of a kind a bookie.
    evidence: Proofs = ()
    #: The fields that this version does not know, as JSON; they are written back unchanged.
    unknown: str = "{}"


def _plain(mark: Restored) -> dict[str, Plain]:
    plain: dict[str, Plain] = json.loads(mark.unknown)
    plain |= {"atMs": mark.at_ms, "export": mark.export, "high": mark.high}
    if mark.evidence:
        plain["evidence"] = [
            {"bookie": one.bookie, "kind": one.kind, "known": one.known, "found": one.found}
            for one in mark.evidence
        ]
    return plain


def _mark(data: Mapping[str, Plain]) -> Restored:
    evidence = data.get("evidence", [])
    if not isinstance(evidence, list):
        raise MalformedError(Flaw.WRONG_TYPE, "evidence must be a list")
    return Restored(
        at_ms=records.number(data, "atMs"),
        high=records.number(data, "high"),
        export=records.text(data, "export"),
        evidence=tuple(sorted(map(_evidence, evidence))),
        unknown=records.unknown(data, {"atMs", "export", "high", "evidence"}),
    )


def _evidence(data: Plain) -> StoreEvidence:
    if not isinstance(data, dict):
        raise MalformedError(Flaw.WRONG_TYPE, "each evidence must be an object")
    try:
        kind = EvidenceKind(records.text(data, "kind"))
    except ValueError as error:
        raise MalformedError(Flaw.OUT_OF_RANGE, str(error)) from error
    return StoreEvidence(
        bookie=BookieId(records.text(data, "bookie")),
        kind=kind,
        known=records.number(data, "known"),
        found=records.number(data, "found"),
    )


CODEC: Final = Codec(render=_plain, parse=_mark)


def _accepted_plain(accepted: Accepted) -> dict[str, Plain]:
    unknown: dict[str, Plain] = json.loads(accepted.unknown)
    return unknown | {
        "starts": {str(bookie): accepted.starts[bookie] for bookie in sorted(accepted.starts)},
        "ids": accepted.ids,
        "policy": accepted.policy,
        "beforeIds": accepted.before_ids,
    }


def _accepted(data: Mapping[str, Plain]) -> Accepted:
    starts = data.get("starts")
    if not isinstance(starts, dict):
        raise MalformedError(Flaw.WRONG_TYPE, "starts must be an object")
    return Accepted(
        starts={BookieId(bookie): records.number(starts, bookie) for bookie in starts},
        ids=records.number(data, "ids"),
        policy=records.number(data, "policy"),
        before_ids=records.number(data, "beforeIds"),
        unknown=records.unknown(data, {"starts", "ids", "policy", "beforeIds"}),
    )


ACCEPTED: Final = Codec(render=_accepted_plain, parse=_accepted)


def render(mark: Restored, instance: str) -> bytes:
    """Write the mark."""
    return records.render(_plain(mark), instance)


def parse(raw: bytes, instance: str) -> Restored:
    """Read the mark."""
    return _mark(records.parse(raw, instance))


async def read(cluster: Cluster) -> Restored | None:
    """Read the mark; None if nothing was restored here.

    Raises ``UnreadableError`` if the mark exists and cannot be read: then it stands.
    """
    path = _path(cluster)
    node = await cluster.store.get(path, sync=True)
    if node is None:
        return None
    with stored_at(path, cluster.store.name):
        try:
            return parse(node.value, cluster.instance)
        except ForeignRecordError:
            return None  # it is of an earlier cluster at this root


def watch(
    cluster: Cluster,
) -> AbstractAsyncContextManager[AsyncIterator[Restored | UnreadableError | None]]:
    """Follow the mark. An error that comes instead is a mark that stands."""
    return record_store.watch(cluster, _path(cluster), CODEC)


async def accepted(cluster: Cluster) -> Accepted:
    """Read what people accepted so far."""
    return await record_store.read(cluster, _accepted_path(cluster), ACCEPTED) or Accepted()


async def clear(cluster: Cluster, mark: Restored) -> None:
    """Remove the mark that a person decided on; it counts as done if the mark is gone already.

    What the mark names is accepted first. If the mark was changed meanwhile, it stays.
    """

    def decide(standing: Restored | None) -> None:
        if standing not in (None, mark):
            raise RestoredAgainError(
                f"{_path(cluster)} in {cluster.store.name} is another one than the one that was "
                "looked at: there is another import, or more evidence; look again, and decide again"
            )

    def accept(before: Accepted | None) -> Accepted:
        after = (before or Accepted()).also(mark.evidence)
        if mark.export:
            after = replace(after, before_ids=max(after.before_ids, mark.high << 32))
        return after

    await record_store.change(cluster, _accepted_path(cluster), ACCEPTED, accept)
    await record_store.change(cluster, _path(cluster), CODEC, decide)


def _path(cluster: Cluster) -> str:
    return cluster.root.beside("restored")


def _accepted_path(cluster: Cluster) -> str:
    return cluster.root.beside("accepted")
