"""Make the record of a log anew from its ledgers: their stamps, their openings, their batches.

Nothing acknowledged is lost. Each ledger that was made for the log is recovered, so its writer gets
no acknowledgement any more, and its end is known for good. Which ledgers are the log, and in which
order, is decided in ``keeping.lost_records``. Their ends are judged as the next writer would have
judged them. All that is only looked at until the record is put in the end.

Some things stand nowhere but in the record. The rules are given by the caller, or are those of a
new log. A start inside a ledger is lost: messages before it are read again. Cursors went with the
record. The new record names no writer, and has the highest epoch of any ledger, so every writer of
before hears ``LogTaken``. What the record says of queries is made of the manifests that are left.

A record that is there is taken for older than the ledgers, as after an export was imported. The
rebuild claims the log first. Rules, start, cursors and all ledgers of the record stay, and the
ledgers that came later are added. If it is deleted, or the root is marked as restored, nothing is
rebuilt.

A bookie's hints carry no custom metadata. So after a rebuild of all metadata ledgers have no
stamps. A ledger without any custom metadata of ours is asked for its first entry.
"""

import asyncio
import hmac
from collections.abc import Collection, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

from zonekeeper.client.api.client import Client
from zonekeeper.client.base import errors as client_errors
from zonekeeper.log.base.errors import LogDamaged
from zonekeeper.log.formats import manifests, openings
from zonekeeper.log.formats.manifests import Manifest
from zonekeeper.log.formats.openings import AttemptOpening, LogOpening, ManifestOpening
from zonekeeper.log.keeping import lost_records, retention
from zonekeeper.log.keeping.lost_records import FoundAttempt, FoundLedger
from zonekeeper.log.sessions import collecting, locating, rebuilt_ends
from zonekeeper.metadata.formats import log_record
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.formats.log_record import (
    LogDeleting,
    LogPage,
    LogRecord,
    LogRules,
    LogWriterMark,
)
from zonekeeper.metadata.formats.malformed import MalformedError
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.ledgers import ledger_listing, presences
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.metadata.logs import deleted_logs, log_rebuilding, log_stamp, logs
from zonekeeper.metadata.logs.logs import NoLogError, RestoredRootError
from zonekeeper.metadata.store.background import together
from zonekeeper.placement.base.ids import NO_ENTRY, LedgerId
from zonekeeper.placement.base.troubles import Refusal

_AT_ONCE_MAX: Final = 16


class SeveralLogsError(Refusal):
    """The ledgers are of several incarnations of the name: say which one is to be rebuilt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildWish:
    """What the caller knows of the lost log."""

    #: The writer's mark under which a record that is there is claimed.
    mark: LogWriterMark
    #: None: those of the record that is there, or of a new log.
    rules: LogRules | None = None
    #: The incarnation; needed where ledgers are of several.
    log_id: str | None = None
    #: Ledgers that a person knows to be no part of the log.
    without: Collection[LedgerId] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuiltLog:
    """What a rebuild did."""

    record: LogRecord
    #: Ledgers that were made for the log, and are no part of it.
    left_out: tuple[LedgerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A ledger that was made for the log. ``epoch`` 0: its stamp does not say it."""

    id: LedgerId
    log_id: str
    epoch: int
    created_ms: int
    #: Has it the password of the client that rebuilds?
    is_allowed: bool


async def rebuild(client: Client, name: str, wish: RebuildWish) -> RebuiltLog:
    """Make the record of a log anew; see above."""
    cluster = client.cluster
    if wish.rules is not None:
        log_record.check_rules(wish.rules)
    if not await collecting.is_whole(cluster):
        raise RestoredRootError(
            f"{cluster} was set back to an older state, and may lack ledgers of log {name}: first "
            "see `zonekeeper metadata restored`; nothing was changed"
        )
    place = await log_rebuilding.look(cluster, name)
    if place.record is not None and place.record.deleting:
        raise LogDeleting(f"log {name} is being deleted; nothing was rebuilt")
    candidates = await _candidates(client, name)
    log_id = _incarnation(name, candidates, wish, place.record)
    if place.record is None and await deleted_logs.find(cluster, log_id) is not None:
        raise NoLogError(
            f"log {name} with the id {log_id} was deleted on purpose: what is left of it are "
            "ledgers that autorecovery will collect; nothing was changed"
        )
    mine = [one for one in candidates if one.log_id == log_id]
    for one in mine:
        if not one.is_allowed and one.id not in wish.without:
            raise locating.wrong_password(name, one.id)
    if place.record is not None and not place.is_placeholder:
        await logs.claim(cluster, name, place.record, wish.mark)
        place = await log_rebuilding.look(cluster, name)
    record, pages = await _made(client, name, log_id, mine, wish, place.record)
    await log_rebuilding.put(cluster, name, place, record, pages)
    kept = {one.id for page in pages for one in page.ledgers} | {one.id for one in record.ledgers}
    left_out = tuple(sorted(one.id for one in mine if one.id not in kept))
    return RebuiltLog(record=record, left_out=left_out)


# ── looking ──


async def rebuildable(client: Client, name: str) -> dict[str, list[LedgerId]]:
    """Give the ledgers that were made for logs of a name, by the ids of their incarnations.

    Nothing is recovered or changed.
    """
    found: dict[str, list[LedgerId]] = {}
    for one in sorted(await _candidates(client, name), key=lambda one: (one.log_id, one.id)):
        found.setdefault(one.log_id, []).append(one.id)
    return found


async def _candidates(client: Client, name: str) -> list[_Candidate]:
    """List all ledgers that were made for logs of this name."""
    found: list[_Candidate] = []
    async with aclosing(ledger_listing.all_of(client.cluster)) as every:
        async for one in every:
            if isinstance(one, StoredLedger):
                candidate = await _candidate(client, name, one)
                if candidate is not None:
                    found.append(candidate)
    return found


async def _candidate(client: Client, name: str, one: StoredLedger) -> _Candidate | None:
    stamp = log_stamp.of(one.metadata)
    if stamp is not None and stamp.name != name:
        return None
    created_ms = one.metadata.created_ms or 0
    is_allowed = hmac.compare_digest(client.config.password, one.metadata.password)
    if stamp is not None and stamp.log_id is not None and stamp.epoch is not None:
        return _Candidate(
            id=one.id,
            log_id=stamp.log_id,
            epoch=stamp.epoch,
            created_ms=created_ms,
            is_allowed=is_allowed,
        )
    if stamp is None and one.metadata.custom_value(presences.KEY) is not None:
        return None  # it was made by a client of ours, for something else
    opening = await _opening(client, one.id, one.metadata)
    if opening is None or opening.name != name:
        return None
    return _Candidate(
        id=one.id,
        log_id=opening.log_id.hex(),
        epoch=opening.epoch,
        created_ms=created_ms,
        is_allowed=is_allowed,
    )


async def _opening(
    client: Client, ledger_id: LedgerId, ledger: LedgerMetadata
) -> LogOpening | None:
    """Read the opening of a ledger that may be any ledger; None: it is no ledger of a log.

    A replica that has the opening is enough. Its writer may have died before it told anybody that
    the opening is confirmed; only a recovery, which is yet to come, knows what is.
    """
    at = locating.OPENING_ENTRY
    try:
        reader = await client.open(ledger_id, password=ledger.password, recover=False)
        async with aclosing(reader.read_unconfirmed(at, at)) as batches:
            async for batch in batches:
                for entry in batch:
                    return openings.parse(bytes(entry.payload))
    except (client_errors.NoSuchLedger, client_errors.Unauthorized, MalformedError):
        return None
    return None


def _incarnation(
    name: str, candidates: Iterable[_Candidate], wish: RebuildWish, record: LogRecord | None
) -> str:
    ids = sorted({one.log_id for one in candidates})
    wanted = wish.log_id if record is None else record.id
    if wanted is None and len(ids) > 1:
        raise SeveralLogsError(
            f"ledgers of {len(ids)} logs of the name {name} are there, with the ids "
            f"{', '.join(ids)}: say which one is to be rebuilt; nothing was changed"
        )
    if wanted is None and ids:
        return ids[0]
    if wanted is None or wanted not in ids:
        raise NoLogError(
            f"no ledger was made for log {name}"
            + ("" if wanted is None else f" with the id {wanted}")
            + ": there is nothing to rebuild it from; nothing was changed"
        )
    return wanted


async def _closed(client: Client, name: str, one: _Candidate) -> FoundLedger | FoundAttempt | None:
    """Recover a ledger, and read its opening; None: it is empty, or a manifest ledger in part."""
    reader = await client.open(one.id, recover=True)
    if reader.last_confirmed == NO_ENTRY:
        return None
    try:
        opening = openings.parse(await locating.entry_of(reader, locating.OPENING_ENTRY))
    except MalformedError as error:
        raise LogDamaged(
            f"ledger {one.id} was made for log {name}, and its first entry is no opening: {error}; "
            "nothing was changed; rebuild without it if it is no part of the log"
        ) from error
    last = reader.last_confirmed
    if opening.log_id.hex() != one.log_id:
        return None
    if isinstance(opening, AttemptOpening):
        return FoundAttempt(id=one.id, last_entry=last, opening=opening)
    manifest = None
    if isinstance(opening, ManifestOpening):
        raw = await locating.entry_of(reader, last)
        if not manifests.is_manifest(raw):
            return None
        manifest = _manifest(name, one.id, opening, raw)
    return FoundLedger(id=one.id, last_entry=last, opening=opening, manifest=manifest)


def _manifest(name: str, ledger_id: LedgerId, opening: ManifestOpening, raw: bytes) -> Manifest:
    try:
        manifest = manifests.parse(raw)
    except MalformedError as error:
        raise LogDamaged(
            f"ledger {ledger_id} of log {name} ends with a manifest that cannot be read: {error}; "
            "nothing was changed; rebuild without it if it is no part of the log"
        ) from error
    if (manifest.query, manifest.batch) != (opening.query, opening.batch):
        raise LogDamaged(
            f"ledger {ledger_id} of log {name} was opened for batch {opening.batch} of query "
            f"{opening.query}, and ends with the manifest of batch {manifest.batch} of query "
            f"{manifest.query}; nothing was changed; look at it"
        )
    return manifest


async def _absent(client: Client, found: Collection[FoundLedger], first: LedgerId) -> set[LedgerId]:
    """Give those predecessors that the root has no more, or that are below the first ledger."""
    known = {one.id for one in found}
    befores = {one.opening.before.ledger for one in found if one.opening.before is not None}
    absent = set[LedgerId]()
    for ledger_id in sorted(befores - known):
        if ledger_id < first:
            absent.add(ledger_id)
            continue
        try:
            await client.metadata(ledger_id)
        except client_errors.NoSuchLedger:
            absent.add(ledger_id)
    return absent


# ── making ──


async def _made(
    client: Client,
    name: str,
    log_id: str,
    candidates: Collection[_Candidate],
    wish: RebuildWish,
    known: LogRecord | None,
) -> tuple[LogRecord, list[LogPage]]:
    """Make the record, and its pages."""
    limit = asyncio.Semaphore(_AT_ONCE_MAX)

    async def closed(one: _Candidate) -> FoundLedger | FoundAttempt | None:
        async with limit:
            return await _closed(client, name, one)

    first = LedgerId(0) if known is None or known.start is None else known.start.ledger
    asked = [one for one in candidates if one.id >= first and one.id not in wish.without]
    every = await together(map(closed, asked))
    found = [one for one in every if isinstance(one, FoundLedger)]
    attempts = {one.id: one for one in every if isinstance(one, FoundAttempt)}
    ledgers = lost_records.chain(found, await _absent(client, found, first))
    highest = max((one.epoch for one in candidates), default=0)
    highest = max([highest, *(one.opening.epoch for one in found)])
    left = [
        (one, lost_records.attempts(one, attempts, is_first=one is ledgers[0])) for one in ledgers
    ]
    record = _begun(log_id, candidates, wish, known, left)
    pages: list[LogPage] = []
    for one, before in left:
        for change in [
            *(rebuilt_ends.of_attempt(client, name, attempt, one) for attempt in before),
            rebuilt_ends.of_chained(client, name, one),
        ]:
            record, sealed = await change(record)
            pages += sealed
    _check_holds(name, record, pages, known)
    last = max([one.id for one in candidates], default=None)
    if known is not None and known.last_ledger is not None:
        last = known.last_ledger if last is None else max(last, known.last_ledger)
        highest = max(highest, known.epoch)
    record = replace(record, epoch=highest, writer=None, last_ledger=last)
    if known is not None and known.start is not None and _is_behind(record.start, known.start):
        record = replace(record, start=known.start, start_sequence=known.start_sequence)
    return record, pages


def _begun(
    log_id: str,
    candidates: Collection[_Candidate],
    wish: RebuildWish,
    known: LogRecord | None,
    ledgers: Collection[tuple[FoundLedger, Collection[FoundAttempt]]],
) -> LogRecord:
    """Give a record without a ledger, that begins where the first ledger does."""
    created_ms = min(one.created_ms for one in candidates)
    record = LogRecord(id=log_id, created_ms=created_ms)
    if known is not None:
        record = replace(
            record,
            created_ms=known.created_ms,
            rules=known.rules,
            queries=known.queries,
            unknown=known.unknown,
            start_sequence=0 if known.start is not None else known.start_sequence,
        )
    if wish.rules is not None:
        record = replace(record, rules=wish.rules)
    for first, attempts in ledgers:
        gone = None if first.opening.before is None else first.opening.before.ledger
        begins, sequence = first.id, first.opening.sequence
        if first.manifest is not None:
            left = {one.id for one in attempts}
            trimmed = [one.ledger for one in first.manifest.attempts if one.ledger not in left]
            gone = max([*trimmed, *([] if gone is None else [gone])], default=None)
            begins = min([*left, first.id])
            sequence -= sum(one.messages for one in first.manifest.attempts if one.ledger in left)
        if gone is not None:
            start = MessageId(begins, retention.FIRST_BATCH, 0)
            return replace(record, start=start, start_sequence=sequence, gone=gone)
        # Nothing was trimmed. A log that was made for a copy begins above 0 all the same.
        return replace(record, start_sequence=sequence)
    return record


def _check_holds(
    name: str, record: LogRecord, pages: Iterable[LogPage], known: LogRecord | None
) -> None:
    """Hold that each ledger that the record had with an end is there with that end."""
    every = {one.id: one for page in pages for one in page.ledgers}
    every |= {one.id: one for one in record.ledgers}
    for one in () if known is None else known.ledgers:
        if known is None or one.end is None or (known.start and one.id < known.start.ledger):
            continue
        found = every.get(one.id)
        if found is None or found.end is None or found.end.last_entry != one.end.last_entry:
            raise LogDamaged(
                f"ledger {one.id} is in the record of log {name}, up to entry "
                f"{one.end.last_entry}, and was not found so; nothing was changed; look at it"
            )


def _is_behind(start: MessageId | None, known: MessageId) -> bool:
    return start is None or start < known
