"""Standing by for the writing of logs: a candidate writes a log when it is its turn.

A process stands by with one session of its own at the metadata store, for any number of logs. For
each log it enters ``turn``, which waits until this candidate is to write, takes the log over, and
gives the writer. The turn is over when another candidate has claimed the log, when the log is given
back (at a rotation, to a candidate of an earlier zone), or when it is handed over. The writer takes
no appends from then on. A log that is given back or handed over is closed first, so all that was
appended is stored.

A candidate stands from the beginning of ``turn`` until the end of its block, and for ``LINGER_S``
behind it: a process that does not take the next turn is no candidate. Who may write is never
decided here, but by the claims in the log's record (``logs``) and by fences.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final, TypeVar, assert_never

from zonekeeper.client.base import boundary
from zonekeeper.client.base import errors as client_errors
from zonekeeper.log.api.log_writer import LogWriter
from zonekeeper.log.base.errors import LogEnded, TurnOver
from zonekeeper.log.standby.candidacy import (
    GiveBack,
    HeldTurn,
    HoldOn,
    OpenLog,
    WaitForTurn,
    YieldLog,
)
from zonekeeper.log.standby.standing import TAKEOVERS_MAX, LogStanding, StandbySession
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster, ForeignRootError, NotAClusterError
from zonekeeper.metadata.formats.log_record import LogTaken, LogWriterMark
from zonekeeper.metadata.logs import log_candidate
from zonekeeper.metadata.logs.log_candidate import CandidateMark
from zonekeeper.metadata.store.background import alongside
from zonekeeper.metadata.store.store import MetadataStore
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.base.troubles import Trouble

_MS: Final = 1_000
#: Any id: marks are checked before the log was looked at.
_NO_ID: Final = "0" * 32

Result = TypeVar("Result")
#: Opens a log for a writer with a mark.
WriterOpener = Callable[[str, LogWriterMark], AbstractAsyncContextManager[LogWriter]]

_logger = logging.getLogger(__name__)


class _TurnLostError(Exception):
    """Ends a writer at once whose log another one has."""


@dataclass(slots=True, kw_only=True)
class StandbyCounts:
    """What a standby has done, and does now."""

    #: Logs that it stands for, and logs that it writes.
    standing: int = 0
    writing: int = 0
    #: Logs that it opened; that it gave back or handed over; that another writer took; and openings
    #: that failed.
    taken: int = 0
    given: int = 0
    lost: int = 0
    failed: int = 0


class LogTurn:
    """One turn of a candidate: it writes the log."""

    def __init__(
        self, writer: LogWriter, standing: LogStanding, counts: StandbyCounts, opening_ms: int
    ) -> None:
        #: From the moment when it was this candidate's turn until it could write.
        self.opening_ms: Final = opening_ms
        #: Writes the log until the turn is over.
        self.writer: Final = writer
        #: Another writer has claimed the log.
        self.is_lost = False
        self._standing = standing
        self._counts = counts
        self._over = asyncio.Event()
        self._giving = False
        self._given = asyncio.Event()
        #: The handover to this candidate that is told of the opening, or was.
        self._told = ""
        self._opening_told = asyncio.Event()
        self._opening_told.set()

    @property
    def is_over(self) -> bool:
        """Is it over? Then the writer takes no appends, and all that it will ever store is."""
        return self._over.is_set()

    async def over(self) -> None:
        """Wait until the turn is over."""
        await self._over.wait()

    async def during(self, work: Awaitable[Result]) -> Result:
        """Wait for work, such as for the next input; raises ``TurnOver`` if the turn ends first.

        The work is cancelled then.
        """
        task, over = asyncio.ensure_future(work), asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait({task, over}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise TurnOver(f"log {self.writer.name}: the turn is over")
            return task.result()
        finally:
            for one in (task, over):
                one.cancel()
            await asyncio.wait({task, over})

    async def hold(self) -> None:
        """Decide at each change whether the turn goes on, until it is over."""
        standing = self._standing
        async with alongside() as group:
            group.create_task(self._hear_end())
            while not self._over.is_set():
                version, wish = standing.version, standing.wish_for_me
                if wish is not None and wish.token != self._told:
                    self._told = wish.token
                    self._opening_told.clear()
                    group.create_task(self._tell_opening())
                step = standing.step()
                match step:
                    case HoldOn(ledger):
                        assert standing.held is not None, "it holds the log"
                        standing.held = replace(standing.held, due_ledger=ledger)
                    case GiveBack():
                        if not self._giving:
                            self._giving = True
                            group.create_task(self._give_back())
                    case YieldLog():
                        self._lose()
                        return
                    case OpenLog() | WaitForTurn():
                        raise AssertionError(f"{step} is no step of a candidate that writes")
                    case _:
                        assert_never(step)
                await standing.changed(version)
            if self._giving:
                await self._given.wait()

    async def finish(self) -> None:
        """Wait until others know of a handover what they wait for."""
        await self._opening_told.wait()
        if self._giving and not self.is_lost:
            await self._given.wait()

    def check(self) -> None:
        """Raise if the log was lost: so its writer stops at once, and waits for nothing."""
        if self.is_lost:
            raise _TurnLostError

    def _lose(self) -> None:
        self.is_lost = True
        self._over.set()

    async def _hear_end(self) -> None:
        await self.writer.ended()
        if not self._giving:
            # The writer may hear of the claim before the standing does.
            self.is_lost = self.is_lost or self.writer.is_taken
            self._over.set()
            self._standing.ring()

    async def _tell_opening(self) -> None:
        """Tell the program that asked for a handover, which may be seen only after the opening."""
        held = self._standing.held
        if held is not None:
            self._standing.held = replace(held, passed=held.passed | self._standing.others)
        await self._standing.tell(lambda mark: log_candidate.opened(mark, self.opening_ms))
        self._opening_told.set()

    async def _give_back(self) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            await self.writer.close()
        except LogTaken:
            self.is_lost = True
        except Trouble as error:
            _logger.warning("log %s: it is not closed: %s", self.writer.name, error)
        else:
            self._counts.given += 1
            closing_ms = int((loop.time() - began_s) * _MS)
            await self._standing.tell(lambda mark: log_candidate.closed(mark, closing_ms))
        finally:
            self._given.set()
            self._over.set()
            self._standing.ring()


class LogStandby:
    """This process as a candidate for the writing of logs; ``LogClient.standby`` gives it."""

    def __init__(
        self,
        shared: StandbySession,
        log: Cluster,
        open_writer: WriterOpener,
        drawn: Callable[[], str],
        *,
        takeovers: int = TAKEOVERS_MAX,
    ) -> None:
        """``log``: the cluster as the client that writes reaches it. ``takeovers`` at a time."""
        self.counts: Final = StandbyCounts()
        self._shared = shared
        self._log = log
        self._open_writer = open_writer
        self._drawn = drawn
        self._gate = asyncio.Semaphore(takeovers)
        #: The logs that it stands for, or waits to.
        self._logs = dict[str, LogStanding]()

    @property
    def candidate(self) -> str:
        """The candidate's name."""
        return self._shared.candidate

    def stands_for(self, name: str) -> bool:
        """Does this candidate stand for a log, as far as is known? A turn waits, or lasts."""
        return name in self._logs and self._logs[name].stands

    @asynccontextmanager
    async def turn(self, name: str, zones: Sequence[str]) -> AsyncIterator[LogTurn]:
        """Wait until this candidate is to write a log, and let it write until the block ends.

        ``zones``: the zones whose candidates may write, the most preferred one first. ``LogTaken``,
        ``LogEnded`` and ``TurnOver`` that end the block are not raised once the turn is over. If
        the block ends before, the log is closed in order; if it raises, the writer stops at once.
        Raises ``CandidateTaken`` if another process stands under this candidate's name, and
        ``NoLogError``, ``LogDeleting`` or ``OtherIncarnation`` once there is no such log any more.
        A store that is away is waited for; ``MetadataFailed`` says that it refuses.
        """
        wanted = self._checked(zones)
        if name in self._logs:
            raise log_candidate.BadCandidateError(
                f"candidate {self.candidate} stands for log {name} already, in this process"
            )
        standing = LogStanding(self._shared, self._log, name, wanted)
        work = (
            _in_words(name, standing.follow_record),
            _in_words(name, standing.follow_candidates),
            _in_words(name, standing.follow_session),
            _in_words(name, standing.keep_standing),
        )
        self._logs[name] = standing
        self.counts.standing += 1
        try:
            async with alongside(*work), self._held(standing) as turn:
                yield turn
        finally:
            del self._logs[name]
            self.counts.standing -= 1
            self._shared.leave_soon(name)

    def _checked(self, zones: Sequence[str]) -> tuple[ZoneName, ...]:
        """Refuse zones with which this candidate could never write."""
        wanted = tuple(map(log_candidate.zone_of, zones))
        log_candidate.check(
            CandidateMark(
                candidacy=self._shared.candidacy,
                log_id=_NO_ID,
                zone=self._shared.zone,
                zones=wanted,
                address=self._shared.address,
            )
        )
        return wanted

    @asynccontextmanager
    async def _held(self, standing: LogStanding) -> AsyncIterator[LogTurn]:
        """Open the log when it is due, and hold it until the block ends or the turn is over."""
        told = False
        try:
            async with AsyncExitStack() as stack:
                turn = await self._opened(standing, stack)
                stack.callback(self._ended, standing)
                async with alongside(turn.hold()):
                    try:
                        yield turn
                    except (LogTaken, LogEnded, TurnOver):
                        if not turn.writer.is_over and not turn.is_over:
                            raise
                        told = True
                    told = told or turn.is_over
                    await turn.finish()
                turn.check()
        except (LogTaken, _TurnLostError) as error:
            self.counts.lost += 1
            if isinstance(error, LogTaken) and not told:
                raise  # the block does not know that some of its messages are not in the log

    def _ended(self, standing: LogStanding) -> None:
        standing.held = None
        self.counts.writing -= 1

    async def _opened(self, standing: LogStanding, stack: AsyncExitStack) -> LogTurn:
        """Open the log once this candidate is to write; a failure lets another one try."""
        loop = asyncio.get_running_loop()
        while True:
            await standing.until_due()
            due_s = loop.time()
            try:
                async with self._gate:
                    if not await _in_words(standing.name, standing.is_still_due):
                        continue
                    passed = standing.others if standing.wish_for_me else frozenset[str]()
                    writer = await stack.enter_async_context(
                        self._open_writer(standing.name, self._mark())
                    )
            except LogTaken as error:
                _logger.info("log %s: another candidate was faster: %s", standing.name, error)
            except Trouble as error:
                self.counts.failed += 1
                if not error.retryable and not isinstance(error, client_errors.WriterStopped):
                    raise
                await standing.stand_back(error)
            else:
                self.counts.taken += 1
                self.counts.writing += 1
                standing.held = HeldTurn(epoch=writer.epoch, passed=passed)
                opening_ms = int((loop.time() - due_s) * _MS)
                return LogTurn(writer, standing, self.counts, opening_ms)

    def _mark(self) -> LogWriterMark:
        return LogWriterMark(
            token=self._drawn(),
            zone=self._shared.zone,
            address=self._shared.address,
            candidate=self._shared.candidate,
            candidacy=self._shared.candidacy,
        )


async def _in_words(name: str, work: Callable[[], Awaitable[Result]]) -> Result:
    """Do what a turn does at the store; its errors are translated, and those of blocks are not."""
    with boundary.translated(f"standing by for log {name}"):
        return await work()


@asynccontextmanager
async def standing_by(
    shared: StandbySession,
    log: Cluster,
    open_writer: WriterOpener,
    drawn: Callable[[], str],
    takeovers: int,
) -> AsyncIterator[LogStandby]:
    """Give a standby, until the block ends; ``shared.cluster`` is open that long."""
    try:
        async with alongside(shared.sweep()):
            yield LogStandby(shared, log, open_writer, drawn, takeovers=takeovers)
    finally:
        await shared.leave_all()  # the session may be the client's, and outlive a block that raises


@asynccontextmanager
async def session(
    log: Cluster, open_session: Callable[[], Awaitable[MetadataStore]] | None
) -> AsyncIterator[Cluster]:
    """Give the cluster over a session of its own; None: over that of the client."""
    if open_session is None:
        yield log
        return
    doing = "opening a session for candidates"
    with boundary.translated(doing):
        store = await open_session()
    try:
        try:
            with boundary.translated(doing):
                cluster = await clusters.open_cluster(store)
        except (NotAClusterError, ForeignRootError) as error:
            raise client_errors.ClusterNotReady(f"{doing}: {error}") from error
        if cluster.instance != log.instance:
            raise NotAClusterError(f"{cluster} is another cluster than {log}")
        yield cluster
    finally:
        await store.close()
