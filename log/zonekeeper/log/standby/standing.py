"""A candidate that stands for one log: what it sees, and its node in the folder of candidates.

``candidacy`` decides. This module follows what the decision needs: the candidates by the session of
the standby, and the record by the client that writes. So a candidate whose standby alone is cut off
still hears that its log was taken.

The node is of the session, which all logs of a process share. If the session is lost the candidate
stands again in the next one, whether it writes or waits. It writes on meanwhile: safety is the
record's. A candidate that cannot open the log although it is its turn *stands back*: it takes its
node away for some time, and so another one may try.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakValueDictionary

from zonekeeper.log.sessions.pausing import GrowingPause
from zonekeeper.log.standby import candidacy
from zonekeeper.log.standby.candidacy import (
    Contender,
    HeldTurn,
    OpenLog,
    SeenWriter,
    StandbyStep,
    Wish,
)
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.log_record import LogDeleting, LogRecord, OtherIncarnation
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.logs import log_candidates, logs
from zonekeeper.metadata.logs.log_candidate import CandidateMark, HandoverMark
from zonekeeper.metadata.logs.log_candidates import (
    CandidateTaken,
    LogCandidates,
    TooManyCandidatesError,
)
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.metadata.store.store import SessionId
from zonekeeper.placement.base.ids import ZoneName

#: The session of a standby: a silent candidate counts as gone after so long.
SESSION_MS: Final = 5_000
#: So many logs are opened at the same time when a process with many logs has died.
TAKEOVERS_MAX: Final = 16
#: A process makes so many of its nodes at the same time.
JOINS_MAX: Final = 32
#: The pause before a candidate that could not open the log stands again; doubled each time.
BACK_S: Final = 1.0
BACK_MAX_S: Final = 30.0
#: A candidate stands for so long between two turns.
LINGER_S: Final = 1.0
#: The pause after a failure of the store, and before an unreadable record is read again.
_RETRY_S: Final = 0.5
#: A new candidate waits so many session timeouts for one of its name to go.
_PATIENCE: Final = 1.5

_logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class StandbySession:
    """What all logs of one standby share."""

    #: Over the session that the candidates' nodes belong to.
    cluster: Cluster
    candidate: str
    #: Drawn for this standby.
    candidacy: str
    zone: ZoneName
    address: str
    #: So many nodes are made at the same time: a process may begin with many logs.
    gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(JOINS_MAX))
    #: Logs whose node is to be taken away, and when, by the loop's clock.
    left: dict[str, float] = field(default_factory=dict)
    #: For each log: held while its node is made or taken away, so that neither crosses the other.
    _one_at_a_time: WeakValueDictionary[str, asyncio.Lock] = field(
        default_factory=WeakValueDictionary
    )
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def leave(self, name: str) -> None:
        """Take the node of a log away, now or as soon as the store is reached."""
        self.leave_soon(name, 0)
        if self.cluster.store.session.connected:
            await self._leave(name)

    def leave_soon(self, name: str, within_s: float = LINGER_S) -> None:
        """Take the node of a log away, unless ``stay`` is called before."""
        self.left[name] = asyncio.get_running_loop().time() + within_s
        self._changed.set()

    def stay(self, name: str) -> None:
        """Keep the node of a log, or make it."""
        self.left.pop(name, None)

    async def sweep(self) -> None:
        """Take away what is to be taken away, each in its time."""
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            for name in tuple(self.left):
                due_s = self.left.get(name)  # it may stay by now: each takes its time at the store
                if due_s is not None and due_s <= loop.time():
                    await self._leave(name)
            next_s = min(self.left.values(), default=None)
            if next_s is not None:
                next_s = max(next_s, loop.time() + _RETRY_S)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(next_s):
                    await self._changed.wait()

    async def leave_all(self) -> None:
        """Take all nodes away, if the store is reached; else the session's end does."""
        for name in tuple(self.left):
            if self.cluster.store.session.connected:
                await self._leave(name)

    def alone(self, name: str) -> asyncio.Lock:
        """Give what is to be held while the node of a log is made or taken away."""
        return self._one_at_a_time.setdefault(name, asyncio.Lock())

    async def _leave(self, name: str) -> None:
        async with self.alone(name):
            due_s = self.left.get(name)
            if due_s is None:
                return  # it is to stay by now
            with suppress(StoreError):
                await log_candidates.leave(self.cluster, name, self.candidate, self.candidacy)
                if self.left.get(name) == due_s:  # else it was to stay, and is to leave once more
                    self.left.pop(name, None)


class LogStanding:
    """One candidate of one log."""

    def __init__(
        self, shared: StandbySession, log: Cluster, name: str, zones: tuple[ZoneName, ...]
    ) -> None:
        """``log``: the cluster as the client that writes reaches it."""
        self.name = name
        #: While this candidate writes.
        self.held: HeldTurn | None = None
        self._shared = shared
        self._store = shared.cluster.store
        self._log = log
        self._zones = zones
        #: As they were last seen; None: not yet, or the record cannot be read now.
        self._seen: LogCandidates | None = None
        self._record: LogRecord | None = None
        #: The id of the log's incarnation, once it was seen.
        self._log_id: str | None = None
        #: Counts what changed.
        self._version = 0
        self._changed = asyncio.Event()
        #: The session in which the node was made.
        self._stood_in: SessionId | None = None
        self._has_stood = False
        self._is_back = False
        self._back = GrowingPause(BACK_S, BACK_MAX_S)

    # ── what is seen ──

    @property
    def version(self) -> int:
        """Counts what changed."""
        return self._version

    @property
    def handover(self) -> HandoverMark | None:
        """The handover that is asked for."""
        return None if self._seen is None else self._seen.handover

    @property
    def wish_for_me(self) -> HandoverMark | None:
        """The handover to this candidate, while it is not told of the opening."""
        wish = self.handover
        if wish is None or wish.taker != self._shared.candidacy or wish.opening_ms is not None:
            return None
        return wish

    @property
    def others(self) -> frozenset[str]:
        """The candidacies of all others that stand."""
        candidates = () if self._seen is None else self._seen.candidates
        return frozenset(one.mark.candidacy for one in candidates) - {self._shared.candidacy}

    @property
    def stands(self) -> bool:
        """Does this candidate stand, by what is seen now?"""
        return self._stands_in(self._seen)

    def step(self) -> StandbyStep:
        """Decide by what is seen now."""
        return candidacy.next_step(
            candidacy.StandbyScene(
                mine=self._shared.candidacy,
                in_touch=self._store.session.connected,
                contenders=None if self._seen is None else contenders(self._seen),
                writer=None if self._record is None else seen_writer(self._record),
                wish=wish_of(self.handover),
                held=self.held,
            )
        )

    async def changed(self, since: int, within_s: float | None = None) -> None:
        """Wait until something has changed since a version, at most so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self._version == since:
                    await self._changed.wait()

    async def until_due(self) -> None:
        """Wait until it is this candidate's turn to open the log."""
        while not self._is_due():
            await self.changed(self._version)

    async def is_still_due(self) -> bool:
        """Is it this candidate's turn by the record as it is now?"""
        try:
            self._adopt(await logs.find(self._log, self.name))
        except UnreadableError:
            self._record = None  # ``follow_record`` says so, and looks again
            self.ring()
        return self._is_due()

    def _is_due(self) -> bool:
        """Is it this candidate's turn to open the log, by what is seen now?

        A node that was not made or confirmed for this turn may be one that is being taken away.
        """
        return self._stood_in is not None and isinstance(self.step(), OpenLog)

    def ring(self) -> None:
        """Let everything that waits look again."""
        self._version += 1
        self._changed.set()
        self._changed.clear()

    def _adopt(self, record: LogRecord | None) -> None:
        if record is None:
            raise logs.no_log(self._log, self.name, "its candidates stand no more")
        if self._log_id is None:
            self._log_id = record.id
        if record.id != self._log_id:
            raise OtherIncarnation(
                f"log {self.name} was deleted, and made anew: its candidates were those of "
                f"{self._log_id}; stand for it again"
            )
        if record.deleting:
            raise LogDeleting(f"log {self.name} is being deleted; its candidates stand no more")
        self._record = record
        self.ring()

    # ── tasks ──

    async def follow_record(self) -> None:
        """Follow the record; raises why the log can have no candidate any more."""
        while True:
            try:
                async with logs.watch(self._log, self.name) as records:
                    async for record in records:
                        self._adopt(record)
            except UnreadableError as error:  # it is being made anew, or a person must look
                _logger.warning("log %s: no candidate opens it: %s", self.name, error)
                self._record = None
                self.ring()
            await asyncio.sleep(_RETRY_S)

    async def follow_candidates(self) -> None:
        """Follow the candidates of the log's present incarnation."""
        while self._log_id is None:
            await self.changed(self._version)
        async with log_candidates.follow(
            self._shared.cluster, self.name, self._log_id
        ) as candidates:
            async for seen in candidates:
                if self._stands_in(self._seen) and not self._stands_in(seen):
                    self._stood_in = None
                self._seen = seen
                self.ring()

    async def follow_session(self) -> None:
        """Hear of the session's end, and of the next one."""
        async with self._store.watch_session() as sessions:
            async for _ in sessions:
                self.ring()

    async def keep_standing(self) -> None:
        """Have the node in each session. Raises ``CandidateTaken`` if the name never gets free."""
        loop = asyncio.get_running_loop()
        patience_s = _PATIENCE * self._store.session_timeout_ms / 1_000
        until_s: float | None = None
        self._shared.stay(self.name)
        while True:
            version, wait_s, session = self._version, None, self._store.session
            wanted = self._seen is not None and not self._is_back and session.connected
            if wanted and session.id is not None and session.id != self._stood_in:
                try:
                    await self._join(session.id)
                except (CandidateTaken, TooManyCandidatesError) as error:
                    until_s = until_s or loop.time() + patience_s
                    if not self._has_stood and loop.time() >= until_s:
                        raise
                    _logger.warning("log %s: %s", self.name, error)
                    wait_s = patience_s
                except StoreError as error:
                    if not (error.retryable or error.maybe_applied):
                        raise
                    wait_s = _RETRY_S
                else:
                    self._stood_in, self._has_stood = session.id, True
                    self.ring()
            await self.changed(version, wait_s)

    async def _join(self, session: SessionId) -> None:
        shared = self._shared
        async with shared.gate, shared.alone(self.name):
            await log_candidates.stand(
                shared.cluster, self.name, shared.candidate, self._mark(), session
            )

    async def stand_back(self, error: Exception) -> None:
        """Let others try for a while, as this candidate could not open the log."""
        _logger.warning(
            "log %s: candidate %s could not open it, and stands back for %g s: %s",
            self.name, self._shared.candidate, self._back.next_s, error,
        )  # fmt: skip
        self._is_back = True
        await self._shared.leave(self.name)
        await self._back.wait()
        self._shared.stay(self.name)
        self._is_back, self._stood_in = False, None
        self.ring()

    async def tell(self, change: Callable[[HandoverMark], HandoverMark]) -> None:
        """Note how far the handover is that is asked for, if one is; a failure does no harm."""
        if (wish := self.handover) is None:
            return
        try:
            async with asyncio.timeout(self._store.session_timeout_ms / 1_000):
                await log_candidates.tell(self._shared.cluster, self.name, wish.token, change)
        except (StoreError, TimeoutError) as error:
            _logger.warning("log %s: its handover is not told: %s", self.name, error)

    def _stands_in(self, seen: LogCandidates | None) -> bool:
        mine = self._shared.candidacy
        return seen is not None and any(one.mark.candidacy == mine for one in seen.candidates)

    def _mark(self) -> CandidateMark:
        assert self._log_id is not None, "candidates are followed only then"
        return CandidateMark(
            candidacy=self._shared.candidacy,
            log_id=self._log_id,
            zone=self._shared.zone,
            zones=self._zones,
            address=self._shared.address,
        )


def contenders(seen: LogCandidates) -> tuple[Contender, ...]:
    """Give candidates as the decision sees them."""
    return tuple(
        Contender(
            candidacy=one.mark.candidacy,
            zone=one.mark.zone,
            zones=one.mark.zones,
            since=one.since,
        )
        for one in seen.candidates
    )


def seen_writer(record: LogRecord) -> SeenWriter:
    """Give what the record says of the log's writer."""
    writer = "" if record.writer is None else record.writer.candidacy
    return SeenWriter(
        epoch=record.epoch,
        candidacy=writer,
        # A candidate whose ledger failed goes on in the next one, and has none for a moment.
        is_closed=not record.unended and not writer,
        last_ledger=record.last_ledger,
    )


def wish_of(mark: HandoverMark | None) -> Wish | None:
    """Give a handover as the decision sees it."""
    return None if mark is None else Wish(giver=mark.giver, taker=mark.taker)
