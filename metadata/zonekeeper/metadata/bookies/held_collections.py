"""Collections that wait for a person: ``<root>.zonekeeper/collecting/<bookie>``.

A bookie that would collect too many ledgers without a record of their deletion asks here. It says
how many they are, which is the first and the last, and gives a digest of all their ids. A person
permits exactly these, with a reason. If the ledgers are other ones by then, the bookie asks anew.
The bookie removes its question when nothing waits any more.
"""

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Final

from zonekeeper.metadata.cluster import record_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.record_store import Codec
from zonekeeper.metadata.formats import records
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnreadableError
from zonekeeper.metadata.store.background import together
from zonekeeper.metadata.store.errors import NodeExistsError
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.placement.base.troubles import Refusal

_KNOWN: Final = frozenset({"atMs", "ledgers", "known", "first", "last", "digest", "permit"})


class AskedAnewError(Refusal):
    """The bookie asks about other ledgers than those that were looked at, or asks no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """A person's word that these ledgers may go."""

    at_ms: int
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldCollection:
    """A bookie's question, and perhaps a person's answer."""

    #: Wall time of the question.
    at_ms: int
    #: So many of the ledgers that the bookie knows are gone without a record.
    ledgers: int
    known: int
    first: LedgerId
    last: LedgerId
    #: Of all their ids (``digest_of``).
    digest: str
    permit: Permit | None = None
    #: The fields that this version does not know, as JSON; they are written back unchanged.
    unknown: str = "{}"


def digest_of(ledger_ids: Iterable[LedgerId]) -> str:
    """Give a text that names a set of ledgers."""
    found = hashlib.sha256()
    for ledger_id in sorted(ledger_ids):
        found.update(ledger_id.to_bytes(8, "big"))
    return found.hexdigest()


def _plain(held: HeldCollection) -> dict[str, Plain]:
    plain: dict[str, Plain] = json.loads(held.unknown)
    plain |= {
        "atMs": held.at_ms,
        "ledgers": held.ledgers,
        "known": held.known,
        "first": int(held.first),
        "last": int(held.last),
        "digest": held.digest,
    }
    if held.permit is not None:
        permit = held.permit
        plain["permit"] = {"atMs": permit.at_ms, "by": permit.by, "reason": permit.reason}
    return plain


def _parse(data: Mapping[str, Plain]) -> HeldCollection:
    permit = data.get("permit")
    if permit is not None and not isinstance(permit, dict):
        raise MalformedError(Flaw.WRONG_TYPE, "permit must be an object")
    return HeldCollection(
        at_ms=records.number(data, "atMs"),
        ledgers=records.number(data, "ledgers"),
        known=records.number(data, "known"),
        first=LedgerId(records.number(data, "first")),
        last=LedgerId(records.number(data, "last")),
        digest=records.text(data, "digest"),
        permit=None
        if permit is None
        else Permit(
            at_ms=records.number(permit, "atMs"),
            by=records.text(permit, "by"),
            reason=records.text(permit, "reason"),
        ),
        unknown=records.unknown(data, _KNOWN),
    )


CODEC: Final = Codec(render=_plain, parse=_parse)


def parse(raw: bytes, instance: str) -> HeldCollection:
    """Read a record; raises ``UnreadableError`` or ``ForeignRecordError``."""
    return _parse(records.parse(raw, instance))


async def read(cluster: Cluster, bookie: BookieId) -> HeldCollection | None:
    """Read what a bookie asks; None: it does not wait."""
    return await record_store.read(cluster, _path(cluster, bookie), CODEC)


async def read_all(cluster: Cluster) -> dict[BookieId, HeldCollection | UnreadableError]:
    """Read what all bookies ask; one record that cannot be read does not hide the others."""
    names = await cluster.store.children(_directory(cluster), sync=True) or ()
    bookies = [BookieId(name) for name in names]
    found = await together(_read_or_error(cluster, bookie) for bookie in bookies)
    return {bookie: held for bookie, held in zip(bookies, found, strict=True) if held is not None}


async def _read_or_error(
    cluster: Cluster, bookie: BookieId
) -> HeldCollection | UnreadableError | None:
    try:
        return await read(cluster, bookie)
    except UnreadableError as error:
        return error


def watch_all(
    cluster: Cluster,
) -> AbstractAsyncContextManager[AsyncIterator[dict[str, HeldCollection | UnreadableError]]]:
    """Follow what all bookies ask."""
    return record_store.watch_all(cluster, _directory(cluster), CODEC)


async def ask(cluster: Cluster, bookie: BookieId, held: HeldCollection) -> None:
    """Ask a person to permit a collection; a question for the same ledgers stays as it is."""

    def decide(standing: HeldCollection | None) -> HeldCollection:
        return standing if standing is not None and standing.digest == held.digest else held

    if not await cluster.store.exists(_directory(cluster)):
        await _make_directory(cluster)
    await _change(cluster, bookie, decide)


async def permit(cluster: Cluster, bookie: BookieId, digest: str, word: Permit) -> None:
    """Permit the collection of the ledgers that a person looked at; the first word is kept."""

    def decide(standing: HeldCollection | None) -> HeldCollection:
        if standing is None or standing.digest != digest:
            raise AskedAnewError(
                f"{bookie} does not wait for a word on these ledgers any more: look again, and "
                "decide again"
            )
        return replace(standing, permit=standing.permit or word)

    await _change(cluster, bookie, decide)


async def done(cluster: Cluster, bookie: BookieId) -> None:
    """Remove a bookie's question: nothing waits any more."""
    await _change(cluster, bookie, lambda _: None)


async def _change(
    cluster: Cluster,
    bookie: BookieId,
    decide: Callable[[HeldCollection | None], HeldCollection | None],
) -> None:
    await record_store.change(cluster, _path(cluster, bookie), CODEC, decide)


async def _make_directory(cluster: Cluster) -> None:
    try:
        await cluster.store.create(_directory(cluster))
    except NodeExistsError:
        return  # another bookie was faster


def _directory(cluster: Cluster) -> str:
    return cluster.root.beside("collecting")


def _path(cluster: Cluster, bookie: BookieId) -> str:
    return f"{_directory(cluster)}/{bookie}"
