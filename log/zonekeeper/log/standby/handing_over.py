"""Handing a log over on purpose, from one candidate to another.

A node in the folder of candidates says so, as long as the session of the program that asks. The
writer closes the log and notes how long that took. Then the taker opens it, and notes the same.
Nothing is lost: a writer that closes waits until all that it took is stored.

If the program dies, or the taker, then the log goes to the first candidate in order.

The wish is taken back whatever happens. If the store is away, that is tried until the session of
the program has ended, and the node with it: a wish that stayed would hold up every other handover.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass

from zonekeeper.log.base.errors import (
    HandoverFailed,
    NoCandidateError,
    NoStandbyWriter,
    WritesAlready,
)
from zonekeeper.log.standby import candidacy, standing
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.log_record import LogRecord
from zonekeeper.metadata.logs import log_candidates, logs
from zonekeeper.metadata.logs.log_candidate import HandoverMark
from zonekeeper.metadata.logs.log_candidates import LogCandidates, StandingCandidate
from zonekeeper.metadata.store.errors import NoNodeError, StoreError
from zonekeeper.placement.base.ids import ZoneName

#: How long a handover is waited for where the caller does not say it.
TIMEOUT_S = 30.0
#: The pause before a wish that could not be taken back is tried again.
_RETRY_S = 0.5

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCandidate:
    """A candidate of a log, for people and programs."""

    name: str
    zone: ZoneName
    #: Its own list; that of the candidate that stands longest counts.
    zones: tuple[ZoneName, ...]
    address: str
    #: Does the log's record name it as the writer?
    writes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """A handover that is done."""

    giver: str
    taker: str
    #: From the last append that the giver took until the taker was ready for one. None: the giver
    #: went away meanwhile, so nobody knows it.
    pause_ms: int | None


async def seen(cluster: Cluster, name: str) -> list[SeenCandidate]:
    """Give the candidates of a log, the one that should write first."""
    record = await logs.find(cluster, name)
    look = await log_candidates.look(cluster, name, record.id)
    by_id = {one.mark.candidacy: one for one in look.candidates}
    writer = "" if record.writer is None else record.writer.candidacy
    return [
        SeenCandidate(
            name=one.name,
            zone=one.mark.zone,
            zones=one.mark.zones,
            address=one.mark.address,
            writes=one.mark.candidacy == writer,
        )
        for one in (by_id[c.candidacy] for c in candidacy.in_order(standing.contenders(look)))
    ]


async def hand_over(
    cluster: Cluster, name: str, to: str, token: str, timeout_s: float
) -> HandedOver:
    """Hand a log over to a candidate, and wait until it writes; ``token`` is new.

    Raises ``NoCandidateError``, ``NoStandbyWriter``, ``WritesAlready`` or ``HandoverUnderWay``, and
    nothing was changed; or ``HandoverFailed``.
    """
    record = await logs.find(cluster, name)
    look = await log_candidates.look(cluster, name, record.id)
    giver, taker = _judged(name, record, look, to)
    mark = HandoverMark(
        log_id=record.id, giver=giver.mark.candidacy, taker=taker.mark.candidacy, token=token
    )
    limit = asyncio.timeout(timeout_s)
    try:
        async with limit:
            await _ask(cluster, name, mark)
            async with log_candidates.follow(cluster, name, record.id) as looks:
                return await _done(name, looks, mark, giver.name, taker.name)
    except TimeoutError:
        if not limit.expired():
            raise
        raise HandoverFailed(
            f"log {name} was not handed over to candidate {to} within {timeout_s:g} s; the wish is "
            "taken back, and the writer may have closed the log for it; `zonekeeper log show` says "
            "which writer it has now"
        ) from None
    finally:
        await _take_back(cluster, name, token)


async def _ask(cluster: Cluster, name: str, mark: HandoverMark) -> None:
    try:
        await log_candidates.ask(cluster, name, mark)
    except NoNodeError:  # the folder of candidates went with the last one
        raise NoStandbyWriter(
            f"all candidates of log {name} have gone meanwhile, so none can hand it over; nothing "
            "was changed"
        ) from None


async def _take_back(cluster: Cluster, name: str, token: str) -> None:
    """Take a wish back; a failure is no failure of the handover, whose end is known by now."""
    try:
        async with asyncio.timeout(cluster.store.session_timeout_ms / 1_000):
            while True:
                try:
                    return await log_candidates.take_back(cluster, name, token)
                except StoreError as error:
                    if not error.retryable:
                        raise
                await asyncio.sleep(_RETRY_S)
    except (StoreError, TimeoutError) as error:
        _logger.warning(
            "log %s: the wish to hand it over goes with this program's session: %s", name, error
        )


def _judged(
    name: str, record: LogRecord, look: LogCandidates, to: str
) -> tuple[StandingCandidate, StandingCandidate]:
    """Give the candidate that writes and the one that is to write; raises what is wrong."""
    order = candidacy.in_order(standing.contenders(look))
    zones = candidacy.zones_of(order)
    known = ", ".join(f"{one.name} (zone {one.mark.zone})" for one in look.candidates) or "none"
    taker = next((one for one in look.candidates if one.name == to), None)
    if taker is None:
        raise NoCandidateError(
            f"log {name} has no candidate {to}; its candidates are: {known}; nothing was changed"
        )
    if taker.mark.zone not in zones:
        raise NoCandidateError(
            f"candidate {to} of log {name} is in zone {taker.mark.zone}, which is not in the list "
            f"of zones that counts ({', '.join(zones)}); nothing was changed"
        )
    writer = "" if record.writer is None else record.writer.candidacy
    giver = next((one for one in look.candidates if one.mark.candidacy == writer), None)
    if giver is None:
        raise NoStandbyWriter(
            f"no candidate of log {name} writes it now, so none can hand it over; its candidates "
            f"are: {known}; nothing was changed"
        )
    if giver is taker:
        raise WritesAlready(f"candidate {to} writes log {name} already; nothing was changed")
    return giver, taker


async def _done(
    name: str,
    looks: AsyncIterator[LogCandidates],
    mark: HandoverMark,
    giver: str,
    taker: str,
) -> HandedOver:
    """Follow a handover to its end."""
    loop = asyncio.get_running_loop()
    closed_s: float | None = None
    was_asked = False
    async for look in looks:
        told = look.handover
        if told is None or told.token != mark.token:
            if was_asked:
                raise HandoverFailed(
                    f"the wish to hand log {name} over to candidate {taker} went with the session "
                    "that asked; `zonekeeper log show` says which writer the log has now"
                )
            continue  # a look from before
        was_asked = True
        if told.closing_ms is not None and told.opening_ms is None:
            closed_s = loop.time() if closed_s is None else closed_s
        if told.opening_ms is not None:
            opening_ms = told.opening_ms
            if closed_s is not None:
                opening_ms = int((loop.time() - closed_s) * 1_000)
            pause_ms = None if told.closing_ms is None else told.closing_ms + opening_ms
            return HandedOver(giver=giver, taker=taker, pause_ms=pause_ms)
        if not any(one.mark.candidacy == mark.taker for one in look.candidates):
            closed = "had closed" if told.closing_ms is not None else "may have closed"
            raise HandoverFailed(
                f"candidate {taker} of log {name} went away before it wrote; candidate {giver} "
                f"{closed} the log, and the first candidate in order opens it"
            )
    raise AssertionError("a watch ends only with an error")
