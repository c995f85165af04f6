"""Orders in the store: ``<root>.zonekeeper/orders/<bookie>``, one record a bookie.

    kind           drain, recover or remove
    token          drawn when the order was given
    given          atMs, by, reason: whose word it is
    incarnation    the number of the bookie's cookie; absent: it had none
    readOnly       true: this order made the bookie read-only; false: another one did
    emptiedAtMs    when a whole listing named the bookie nowhere
    takenBack      atMs, by, reason: the order is over once its marks are gone
    progress       how far it is: atMs, worker, sinceMs, phase, movedMs, ledgers, ledgersLeft,
                   bytes, bytesLeft, why

An order changes in one transaction with the bookie's own record, whose ``draining`` is there as
long as an order to drain or to remove stands. ``change`` reads both behind all writes, decides, and
writes both at the versions that it read. If an answer was lost, it reads and decides again: what it
decides must recognise its own change, by the token or by the state that it makes.

A kind or a phase that this version does not know makes the record unreadable, as one of a newer
format is: then nothing is done about the bookie by this version.
"""

import asyncio
import enum
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from zonekeeper.metadata.bookies import bookie_records, order_claims
from zonekeeper.metadata.bookies.bookie_records import BookieRecord, Mark
from zonekeeper.metadata.bookies.order_claims import OrderClaim
from zonekeeper.metadata.cluster import record_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.record_store import Codec
from zonekeeper.metadata.formats import records
from zonekeeper.metadata.formats.malformed import (
    Flaw,
    MalformedError,
    UnreadableError,
    UnsupportedError,
    stored_at,
)
from zonekeeper.metadata.formats.records import ForeignRecordError
from zonekeeper.metadata.store.background import together
from zonekeeper.metadata.store.errors import (
    NodeExistsError,
    NoNodeError,
    StoreError,
    StoreUnavailableError,
    VersionConflictError,
)
from zonekeeper.metadata.store.store import Create, Delete, Put, Versioned, Write
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones.bookie_orders import (
    BookieOrder,
    OrderKind,
    OrderPhase,
    OrderProgress,
    OrderWord,
)

#: After so many attempts it is not contention: some client writes in a loop.
ATTEMPTS_MAX: Final = 50
_PAUSE_S: Final = 0.1
_DIRECTORY: Final = "orders"
_KNOWN: Final = frozenset(
    {
        *("kind", "token", "given", "incarnation", "readOnly"),
        *("emptiedAtMs", "takenBack", "progress"),
    }
)

_Choice = TypeVar("_Choice", bound=enum.StrEnum)


# ── the format ──


def _render(order: BookieOrder) -> dict[str, Plain]:
    plain: dict[str, Plain] = json.loads(order.unknown)
    plain |= {"kind": str(order.kind), "token": order.token, "given": _word(order.given)}
    if order.incarnation is not None:
        plain["incarnation"] = order.incarnation
    if order.read_only is not None:
        plain["readOnly"] = order.read_only
    if order.emptied_ms is not None:
        plain["emptiedAtMs"] = order.emptied_ms
    if order.taken_back is not None:
        plain["takenBack"] = _word(order.taken_back)
    if (one := order.progress) is not None:
        plain["progress"] = {
            "atMs": one.at_ms,
            "worker": one.worker,
            "sinceMs": one.since_ms,
            "phase": str(one.phase),
            "movedMs": one.moved_ms,
            "ledgers": one.ledgers,
            "ledgersLeft": one.ledgers_left,
            "bytes": one.bytes,
            "bytesLeft": one.bytes_left,
            "why": one.why,
        }
    return plain


def _parse(data: Mapping[str, Plain]) -> BookieOrder:
    read_only = data.get("readOnly")
    if read_only is not None and not isinstance(read_only, bool):
        raise MalformedError(Flaw.WRONG_TYPE, "readOnly must be true or false")
    progress = data.get("progress")
    return BookieOrder(
        kind=_choice(OrderKind, data, "kind"),
        token=records.text(data, "token"),
        given=_read_word(data.get("given"), "given"),
        incarnation=_optional(data, "incarnation"),
        read_only=read_only,
        emptied_ms=_optional(data, "emptiedAtMs"),
        taken_back=_read_word(data["takenBack"], "takenBack") if "takenBack" in data else None,
        progress=None if progress is None else _read_progress(progress),
        unknown=records.unknown(data, _KNOWN),
    )


def _word(word: OrderWord) -> dict[str, Plain]:
    return {"atMs": word.at_ms, "by": word.by, "reason": word.reason}


def _read_word(data: Plain, name: str) -> OrderWord:
    if not isinstance(data, dict):
        raise MalformedError(Flaw.WRONG_TYPE, f"{name} must be an object")
    return OrderWord(
        at_ms=records.number(data, "atMs"),
        by=records.text(data, "by"),
        reason=records.text(data, "reason"),
    )


def _read_progress(data: Plain) -> OrderProgress:
    if not isinstance(data, dict):
        raise MalformedError(Flaw.WRONG_TYPE, "progress must be an object")
    return OrderProgress(
        at_ms=records.number(data, "atMs"),
        worker=records.text(data, "worker"),
        since_ms=records.number(data, "sinceMs"),
        phase=_choice(OrderPhase, data, "phase"),
        moved_ms=records.number(data, "movedMs"),
        ledgers=records.number(data, "ledgers"),
        ledgers_left=records.number(data, "ledgersLeft"),
        bytes=records.number(data, "bytes"),
        bytes_left=records.number(data, "bytesLeft"),
        why=records.text(data, "why"),
    )


def _choice(kind: type[_Choice], data: Mapping[str, Plain], name: str) -> _Choice:
    text = records.text(data, name)
    try:
        return kind(text)
    except ValueError:
        raise UnsupportedError(
            f"an order with {name} {text!r:.80}, which this program does not know: use the newer "
            "zonekeeper that wrote it"
        ) from None


def _optional(data: Mapping[str, Plain], name: str) -> int | None:
    return records.number(data, name) if name in data else None


CODEC: Final = Codec(render=_render, parse=_parse)


# ── reading ──


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderState:
    """What the store says of a bookie's order, read behind all writes."""

    order: BookieOrder | None
    #: None: the bookie has no record.
    record: BookieRecord | None
    #: The incarnation of the bookie now; None: it has no cookie.
    incarnation: int | None

    @property
    def draining(self) -> bool:
        """Does the bookie's record say that it is to be emptied?"""
        return self.record is not None and self.record.draining is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nodes:
    order: Versioned | None
    record: Versioned | None
    cookie: Versioned | None


async def read(cluster: Cluster, bookie: BookieId) -> BookieOrder | None:
    """Read the order about a bookie; None: there is none."""
    return await record_store.read(cluster, path(cluster, bookie), CODEC)


async def read_all(cluster: Cluster) -> dict[BookieId, BookieOrder | UnreadableError]:
    """Read all orders; one record that cannot be read does not hide the others."""
    names = await cluster.store.children(cluster.root.beside(_DIRECTORY), sync=True) or ()
    bookies = [BookieId(name) for name in names]
    found = await together(_read_or_error(cluster, bookie) for bookie in bookies)
    return {bookie: one for bookie, one in zip(bookies, found, strict=True) if one is not None}


async def _read_or_error(
    cluster: Cluster, bookie: BookieId
) -> BookieOrder | UnreadableError | None:
    try:
        return await read(cluster, bookie)
    except UnreadableError as error:
        return error


async def read_state(cluster: Cluster, bookie: BookieId) -> OrderState:
    """Read an order with what it changes together; raises ``UnreadableError``."""
    return _state(cluster, bookie, await _nodes(cluster, bookie))


def watch(
    cluster: Cluster, bookie: BookieId
) -> AbstractAsyncContextManager[AsyncIterator[BookieOrder | UnreadableError | None]]:
    """Follow the order about one bookie."""
    return record_store.watch(cluster, path(cluster, bookie), CODEC)


def watch_all(
    cluster: Cluster,
) -> AbstractAsyncContextManager[AsyncIterator[dict[str, BookieOrder | UnreadableError]]]:
    """Follow all orders, by the ids of their bookies."""
    return record_store.watch_all(cluster, cluster.root.beside(_DIRECTORY), CODEC)


# ── changing ──


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderChange:
    """The state after a change. None: that node is to be removed, or not to be made."""

    order: BookieOrder | None
    record: BookieRecord | None
    #: The bookie's cookie goes, in the same transaction, at the version that was read.
    without_cookie: bool = False


Decide = Callable[[OrderState], OrderChange]


async def change(
    cluster: Cluster,
    bookie: BookieId,
    decide: Decide,
    *,
    claim: OrderClaim | None = None,
    first: Callable[[], Awaitable[None]] | None = None,
) -> OrderState:
    """Change an order and its bookie's record in one transaction; give what stands afterwards.

    With ``claim`` nothing is written once the claim is over: ``SessionLostError``. ``first`` is
    awaited between the reads and the write, and raises if the change may not be made. The write is
    refused if the order, the bookie's record or its cookie was changed since they were read. Each
    start of a bookie changes its record.
    """
    doubted = False
    for _ in range(ATTEMPTS_MAX):
        try:
            checks: list[Write] = []
            if claim is not None:
                checks.append(await order_claims.check(cluster, claim))
            nodes = await _nodes(cluster, bookie)
            before = _state(cluster, bookie, nodes)
            after = decide(before)
            writes = _writes(cluster, bookie, nodes, before, after)
            if not writes:
                return before
            if first is not None:
                await first()
            session = None if claim is None else claim.session
            await cluster.store.commit([*checks, *writes], session=session)
        except (NodeExistsError, VersionConflictError):
            continue
        except NoNodeError:
            await _make_directories(cluster)
        except StoreUnavailableError as error:
            doubted = doubted or error.maybe_applied
        except StoreError as error:
            error.maybe_applied = error.maybe_applied or doubted
            raise
        else:
            gone = after.without_cookie
            incarnation = None if gone else before.incarnation
            return OrderState(order=after.order, record=after.record, incarnation=incarnation)
        await asyncio.sleep(_PAUSE_S)
    raise StoreUnavailableError(
        f"not changed in {ATTEMPTS_MAX} attempts",
        store=cluster.store.name,
        path=path(cluster, bookie),
        maybe_applied=doubted,
    )


def draining(record: BookieRecord | None, order: BookieOrder) -> BookieRecord | None:
    """Give a bookie's record with the mark that belongs to an order; the first mark is kept."""
    if order.taken_back is not None:  # a mark beside an order to recover is of one before it
        return record and replace(record, draining=None)
    if not order.kind.drains:
        return record
    record = record or BookieRecord()
    given = order.given
    mark = Mark(at_ms=given.at_ms, by=given.by, reason=given.reason)
    return replace(record, draining=record.draining or mark)


def path(cluster: Cluster, bookie: BookieId) -> str:
    """Give the path of an order."""
    return cluster.root.beside(f"{_DIRECTORY}/{bookie}")


async def _nodes(cluster: Cluster, bookie: BookieId) -> _Nodes:
    store = cluster.store
    return _Nodes(
        order=await store.get(path(cluster, bookie), sync=True),
        record=await store.get(bookie_records.path(cluster, bookie), sync=True),
        cookie=await store.get(cluster.root.cookie(bookie), sync=True),
    )


def _state(cluster: Cluster, bookie: BookieId, nodes: _Nodes) -> OrderState:
    order, record = nodes.order, nodes.record
    return OrderState(
        order=_read(cluster, path(cluster, bookie), CODEC, order),
        record=_read(cluster, bookie_records.path(cluster, bookie), bookie_records.CODEC, record),
        incarnation=None if nodes.cookie is None else nodes.cookie.created_id,
    )


_Value = TypeVar("_Value")


def _read(
    cluster: Cluster, where: str, codec: Codec[_Value], node: Versioned | None
) -> _Value | None:
    if node is None:
        return None
    with stored_at(where, cluster.store.name):
        try:
            return codec.parse(records.parse(node.value, cluster.instance))
        except ForeignRecordError:
            return None  # it is of an earlier cluster at this root: written over


def _writes(
    cluster: Cluster, bookie: BookieId, nodes: _Nodes, before: OrderState, after: OrderChange
) -> list[Write]:
    writes: list[Write] = []
    where = path(cluster, bookie)
    if after.order != before.order:
        writes += _write(cluster, where, nodes.order, CODEC, after.order)
    where = bookie_records.path(cluster, bookie)
    if after.record != before.record:
        writes += _write(cluster, where, nodes.record, bookie_records.CODEC, after.record)
    if after.without_cookie and nodes.cookie is not None:
        where = cluster.root.cookie(bookie)
        writes.append(Delete(path=where, version=nodes.cookie.version))
    return writes


def _write(
    cluster: Cluster, where: str, node: Versioned | None, codec: Codec[_Value], then: _Value | None
) -> list[Write]:
    if then is None:
        return [] if node is None else [Delete(path=where, version=node.version)]
    value = records.render(codec.render(then), cluster.instance)
    if node is None:
        return [Create(path=where, value=value)]
    return [Put(path=where, value=value, version=node.version)]


async def _make_directories(cluster: Cluster) -> None:
    """Make what a cluster of an older release lacks."""
    for name in (_DIRECTORY, "bookies"):
        where = cluster.root.beside(name)
        if await cluster.store.exists(where, sync=True):
            continue
        try:
            await cluster.store.create(where, make_parents=True)
        except NodeExistsError:
            continue
        except StoreError as error:
            if not error.maybe_applied:
                raise
