"""A client of a cluster's logs: create, write, read, trim, delete and list them.

``connect`` is for applications. ``LogClient`` stands on any client of ledgers.

A trim moves the start of a log first, and deletes the ledgers below it afterwards, lowest first. A
deletion marks the log first, then deletes its ledgers, and removes the record last. Both may be
called again after a failure, and go on where they stopped.

What the metadata store says reaches the caller as ``MetadataFailed`` of the client of ledgers.
"""

import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Final

from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client, Surroundings
from zonekeeper.client.base import arguments, boundary
from zonekeeper.client.base.config import ZONE_VARIABLE, ClientConfig, own_zone
from zonekeeper.log.api import log_cursor, log_standby, log_writer
from zonekeeper.log.api.log_cursor import LogConsumer, LogCursor
from zonekeeper.log.api.log_reader import LogReader
from zonekeeper.log.api.log_standby import LogStandby
from zonekeeper.log.api.log_writer import LogWriter
from zonekeeper.log.base import errors
from zonekeeper.log.base.log_figures import LogFigures
from zonekeeper.log.sessions import rebuilding, trimming
from zonekeeper.log.sessions.rebuilding import RebuildWish, RebuiltLog
from zonekeeper.log.standby import handing_over, standing
from zonekeeper.log.standby.handing_over import HandedOver, SeenCandidate
from zonekeeper.log.standby.standing import StandbySession
from zonekeeper.log.writing.budget import BUDGET_BYTES, LogBudget
from zonekeeper.metadata.formats.log_record import LogRecord, LogRules, LogWriterMark
from zonekeeper.metadata.formats.message_ids import LONG_MAX, MessageId
from zonekeeper.metadata.logs import log_candidate, log_cursors, log_listing, logs
from zonekeeper.metadata.logs.log_candidate import BadCandidateError
from zonekeeper.metadata.logs.log_cursor import CursorMark
from zonekeeper.metadata.store.store import MetadataStore
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.ids import LedgerId, ZoneName
from zonekeeper.placement.policy import legality

_ID_WORDS: Final = 4
_WORD_BITS: Final = 32


@asynccontextmanager
async def connect(
    uri: str, config: ClientConfig | None = None, *, budget_bytes: int = BUDGET_BYTES
) -> AsyncIterator["LogClient"]:
    """Give a client of the logs of the cluster at a metadata address, until the block ends.

    ``budget_bytes``: what all writers of this client together may hold.
    """
    surroundings = Surroundings(random.SystemRandom(), lambda: time.time_ns() // 1_000_000)
    async with clients.connect(uri, config) as client:
        times = replace(client.config.store, session_ms=standing.SESSION_MS)
        yield LogClient(
            client,
            surroundings,
            budget_bytes=budget_bytes,
            open_session=partial(open_store, uri, times, must_exist=True),
        )


class LogClient:
    """Creates, opens, trims, deletes and lists logs."""

    def __init__(
        self,
        client: Client,
        surroundings: Surroundings,
        *,
        budget_bytes: int = BUDGET_BYTES,
        open_session: Callable[[], Awaitable[MetadataStore]] | None = None,
    ) -> None:
        """``budget_bytes``: what all writers of this client together may hold.

        ``open_session`` opens a session for a standby; None: it has that of the client.
        """
        self.client = client
        self._open_session = open_session
        self._budget = LogBudget(budget_bytes)
        self._figures = LogFigures()
        self._surroundings = surroundings

    @property
    def figures(self) -> LogFigures:
        """The numbers of this client's logs, for a page of metrics."""
        self._figures.writers.unsent_bytes_now = self._budget.used_bytes
        return self._figures

    async def create(
        self, name: str, rules: LogRules | None = None, *, first_sequence: int = 0
    ) -> None:
        """Create a log; raises ``LogExistsError`` or ``BadLogNameError``, and changes nothing.

        Its first message will have ``first_sequence``: a copy of a log that was trimmed keeps the
        sequences. Raises ``BadLogRules`` for rules that no ledger could follow.
        """
        self._check(rules or LogRules())
        arguments.check_whole("first_sequence", first_sequence, 0, LONG_MAX)
        record = LogRecord(
            id=self._drawn(),
            created_ms=self._surroundings.wall_ms(),
            rules=rules or LogRules(),
            start_sequence=first_sequence,
        )
        with boundary.translated(f"creating log {name}"):
            await logs.create(self.client.cluster, name, record)

    def writer(
        self, name: str, *, address: str = "", deferred_sync: bool = False
    ) -> AbstractAsyncContextManager[LogWriter]:
        """Take a log over for writing, until the block ends.

        The writer before, if there is one, gets no acknowledgement any more. ``address`` stands in
        the log's record, for anyone to read. With ``deferred_sync`` bookies acknowledge before they
        sync, and ``LogWriter.force`` says when messages are in the log for good.
        """
        zone = self.client.config.zone
        mark = LogWriterMark(
            token=self._drawn(), zone=None if zone is None else ZoneName(zone), address=address
        )
        return self._opened(name, mark, deferred_sync=deferred_sync)

    @asynccontextmanager
    async def standby(
        self,
        candidate: str,
        *,
        zone: str | None = None,
        address: str = "",
        takeovers: int = standing.TAKEOVERS_MAX,
    ) -> AsyncIterator[LogStandby]:
        """Stand by as a candidate for the writing of any number of logs, until the block ends.

        ``candidate`` is a name that no other process has. ``zone`` is that of the client by
        default. ``address`` stands in the record of each log that this candidate writes, for anyone
        to read. At most ``takeovers`` logs are opened at the same time.
        """
        log_candidate.check_name(candidate)
        arguments.check_whole("takeovers", takeovers, 1, None)
        own = own_zone(self.client.config) if zone is None else log_candidate.zone_of(zone)
        if own is None:
            raise BadCandidateError(
                f"candidate {candidate} has no zone: give `zone=`, or set it in the client's "
                f"config or in {ZONE_VARIABLE}"
            )
        cluster = self.client.cluster
        async with log_standby.session(cluster, self._open_session) as over:
            shared = StandbySession(
                cluster=over,
                candidate=candidate,
                candidacy=self._drawn(),
                zone=own,
                address=address,
            )
            async with log_standby.standing_by(
                shared, cluster, self._opened, self._drawn, takeovers
            ) as standby:
                yield standby

    async def candidates(self, name: str) -> list[SeenCandidate]:
        """Give the candidates of a log, the one that should write first."""
        with boundary.translated(f"reading the candidates of log {name}"):
            return await handing_over.seen(self.client.cluster, name)

    async def handover(
        self, name: str, to: str, *, timeout_s: float = handing_over.TIMEOUT_S
    ) -> HandedOver:
        """Have the candidate that writes a log hand it over to another one; nothing is lost.

        Raises ``NoCandidateError``, ``NoStandbyWriter``, ``WritesAlready`` or ``HandoverUnderWay``,
        and nothing was changed; or ``HandoverFailed``.
        """
        token = self._drawn()
        with boundary.translated(f"handing over log {name}"):
            return await handing_over.hand_over(self.client.cluster, name, to, token, timeout_s)

    async def watch_writer(self, name: str) -> AsyncGenerator[LogWriterMark | None, None]:
        """Follow which writer the record of a log names, with its address; None: none ever did.

        It may have ended. Raises ``NoLogError`` once there is no such log.
        """
        first, last = True, None
        with boundary.translated(f"following the writer of log {name}"):
            async with logs.watch(self.client.cluster, name) as records:
                async for record in records:
                    if record is None:
                        raise logs.no_log(self.client.cluster, name)
                    if first or record.writer != last:
                        first, last = False, record.writer
                        yield record.writer

    def reader(self, name: str) -> LogReader:
        """Give a reader of a log; the log is looked up when it is read."""
        return LogReader(self.client, name, self._figures.readers)

    async def record(self, name: str) -> LogRecord:
        """Give the record of a log, no older than this call; raises ``NoLogError``."""
        with boundary.translated(f"reading the record of log {name}"):
            return await logs.find(self.client.cluster, name)

    async def set_rules(self, name: str, rules: LogRules) -> None:
        """Set all rules of a log. Its writer follows them from its next ledger on.

        Raises ``BadLogRules`` for rules that no ledger could follow.
        """
        self._check(rules)
        await self.change_rules(name, lambda _: rules)

    async def change_rules(self, name: str, change: Callable[[LogRules], LogRules]) -> LogRules:
        """Change some rules of a log, such as by ``dataclasses.replace``; give the new rules.

        Of two programs that change different rules at once, neither undoes the other's change.
        So ``change`` may be called several times, with the rules as they then are. These may be
        its own, as an answer of the store may be lost: a change that doubles a number would double
        it twice. Raises ``BadLogRules`` for rules that no ledger could follow.
        """

        def checked(before: LogRules) -> LogRules:
            after = change(before)
            self._check(after)
            return after

        with boundary.translated(f"changing the rules of log {name}"):
            log_id = (await self.record(name)).id
            return (await logs.rule(self.client.cluster, name, log_id, checked)).rules

    async def trim(self, name: str, sequence: int) -> None:
        """Forget all messages before one; ledgers that have only such messages are deleted.

        A log that is trimmed there already stays as it is. Raises ``NotInLog`` for a message that
        is ahead of the end.
        """
        with _trimming(name):
            await trimming.to_sequence(self.client, name, await self.record(name), sequence)

    async def trim_to_id(self, name: str, message: MessageId) -> None:
        """Forget all messages before the one with an id; raises ``NotInLog`` if there is none."""
        with _trimming(name):
            await trimming.to_id(self.client, name, await self.record(name), message)

    async def trim_to_time(self, name: str, wall_ms: int) -> None:
        """Forget the messages before the first one that may be of a time or later.

        If there is none, all messages are forgotten.
        """
        with _trimming(name):
            await trimming.to_time(self.client, name, await self.record(name), wall_ms)

    async def trim_to_bytes(self, name: str, keep_bytes: int) -> None:
        """Forget the oldest ledgers, such that the others have at least so many bytes.

        A ledger without a message has none. The last ledger stays.
        """
        arguments.check_whole("keep_bytes", keep_bytes, 0, None)
        with _trimming(name):
            await trimming.to_bytes(self.client, name, await self.record(name), keep_bytes)

    async def trim_by_rules(self, name: str) -> bool:
        """Trim as the log's rules say, which autorecovery does too; give whether the start moved.

        Cursors are waited for, as long as the rules say.
        """
        with _trimming(name):
            record = await self.record(name)
            moved = await trimming.by_rules(self.client, name, record, self._surroundings.wall_ms())
            await trimming.reclaim(self.client, name, record.id)
            return moved

    async def delete(self, name: str) -> None:
        """Delete a log with all its messages and cursors; raises ``NoLogError``."""
        with boundary.translated(f"deleting log {name}"):
            record = await self.record(name)
            await trimming.delete(self.client, name, record.id, self._surroundings.wall_ms())

    async def cursor(
        self, name: str, cursor: str, *, at_end: bool = False, address: str = ""
    ) -> LogCursor:
        """Open a consumer's cursor, and take it from the consumer that had it.

        A cursor that does not exist yet is made: at the earliest message, or with ``at_end`` behind
        the last one. ``address`` stands with the cursor, for anyone to read.
        """
        mark = LogConsumer(
            token=self._drawn(),
            address=address,
            wall_ms=self._surroundings.wall_ms,
            figures=self._figures.readers,
        )
        with boundary.translated(f"opening cursor {cursor} of log {name}"):
            return await log_cursor.opened(self.client, name, cursor, mark, at_end=at_end)

    async def cursors(self, name: str) -> dict[str, CursorMark]:
        """Give the cursors of a log by their names."""
        with boundary.translated(f"reading the cursors of log {name}"):
            record = await self.record(name)
            return await log_cursors.every(self.client.cluster, name, record.id)

    async def delete_cursor(self, name: str, cursor: str) -> None:
        """Delete a cursor, also one that a consumer has open; raises ``NoCursorError``."""
        with boundary.translated(f"deleting cursor {cursor} of log {name}"):
            await log_cursors.delete(self.client.cluster, name, cursor)

    async def rebuild(
        self,
        name: str,
        *,
        rules: LogRules | None = None,
        log_id: str | None = None,
        without: Collection[int] = (),
    ) -> RebuiltLog:
        """Make the record of a log anew that was lost, or is older than the log's ledgers.

        All ledgers that were made for the log are recovered, so its writer ends. ``rules`` are
        those of a new log by default. ``log_id`` says which one is meant where ledgers are of
        several logs of the name. ``without`` are ledgers that are known to be no part of the log.
        Raises ``LogDamaged`` where only a person can decide, and changes nothing.
        """
        wish = RebuildWish(
            mark=LogWriterMark(token=self._drawn()),
            rules=rules,
            log_id=log_id,
            without=[LedgerId(one) for one in without],
        )
        with boundary.translated(f"rebuilding log {name}"):
            return await rebuilding.rebuild(self.client, name, wish)

    async def namespaces(self) -> AsyncGenerator[str, None]:
        """List the namespaces that have logs; ``""``: logs whose name has one part."""
        with boundary.translated("listing logs"):
            async for namespace in log_listing.namespaces(self.client.cluster):
                yield namespace

    async def names(self, namespace: str = "") -> AsyncGenerator[str, None]:
        """List the logs of one namespace, in an order that is always the same."""
        with boundary.translated("listing logs"):
            async for name in log_listing.names(self.client.cluster, namespace):
                yield name

    def _check(self, rules: LogRules) -> None:
        """Refuse limits that are no limits, and quorums that placement refuses."""
        for what, limit in (
            ("bytes of a ledger", rules.rotate_bytes),
            ("messages of a ledger", rules.rotate_messages),
            ("milliseconds of a ledger", rules.rotate_after_ms),
            ("milliseconds that a bookie may lag", rules.downgrade_lag_ms),
            ("bytes that a bookie may lag", rules.downgrade_lag_bytes),
            ("milliseconds that messages are kept", rules.keep_ms),
            ("bytes that are kept", rules.keep_bytes),
        ):
            if limit is not None and limit < 1:
                raise errors.BadLogRules(f"{limit} {what}: it must be 1 or more")
        for what, quorums in (("quorums", rules.quorums), ("minimum", rules.minimum)):
            if quorums is None:
                continue
            judged = legality.judge(quorums, self.client.bookies.policy.placement)
            for broken in judged.refusals:
                raise errors.BadLogRules(
                    f"{what} {quorums}: {broken.reason} (for example: {broken.example}); "
                    "nothing was changed"
                )

    def _opened(
        self, name: str, mark: LogWriterMark, *, deferred_sync: bool = False
    ) -> AbstractAsyncContextManager[LogWriter]:
        return log_writer.opened(
            self.client,
            name,
            mark,
            self._surroundings.wall_ms,
            budget=self._budget,
            figures=self._figures.writers,
            deferred_sync=deferred_sync,
        )

    def _drawn(self) -> str:
        """Draw an id: 32 hexadecimal digits."""
        chance = self._surroundings.chance
        words = [int(chance.random() * (1 << _WORD_BITS)) for _ in range(_ID_WORDS)]
        return "".join(f"{word:08x}" for word in words)


def _trimming(name: str) -> AbstractContextManager[None]:
    return boundary.translated(f"trimming log {name}")
