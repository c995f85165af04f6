"""A client of a cluster's logs: create, write, read, trim, delete and list them.

``connect`` is for applications. ``LogClient`` stands on any client of ledgers.

A trim moves the start of a log first, and deletes the ledgers below it afterwards, lowest first. A
deletion marks the log first, then deletes its ledgers, and removes the record last. Both may be
called again after a failure, and go on where they stopped.
"""

import random
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client, Surroundings
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.log.api import log_writer
from zonekeeper.log.api.log_reader import LogReader
from zonekeeper.log.api.log_writer import LogWriter
from zonekeeper.log.base import errors
from zonekeeper.log.sessions import locating
from zonekeeper.log.writing.budget import BUDGET_BYTES, ByteBudget
from zonekeeper.metadata.formats.log_record import LogRecord, LogRules, LogWriterMark
from zonekeeper.metadata.logs import log_listing, logs
from zonekeeper.metadata.store.background import together
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.policy import legality

_ID_WORDS: Final = 4
_WORD_BITS: Final = 32


@asynccontextmanager
async def connect(uri: str, config: ClientConfig | None = None) -> AsyncIterator["LogClient"]:
    """Give a client of the logs of the cluster at a metadata address, until the block ends."""
    surroundings = Surroundings(random.SystemRandom(), lambda: time.time_ns() // 1_000_000)
    async with clients.connect(uri, config) as client:
        yield LogClient(client, surroundings)


class LogClient:
    """Creates, opens, trims, deletes and lists logs."""

    def __init__(
        self, client: Client, surroundings: Surroundings, *, budget_bytes: int = BUDGET_BYTES
    ) -> None:
        """``budget_bytes``: what all writers of this client together may hold."""
        self.client = client
        self._budget = ByteBudget(budget_bytes)
        self._surroundings = surroundings

    async def create(self, name: str, rules: LogRules | None = None) -> None:
        """Create a log; raises ``LogExistsError`` or ``BadLogNameError``, and changes nothing.

        Raises ``BadLogRules`` for rules that no ledger could follow.
        """
        self._check(rules or LogRules())
        record = LogRecord(
            id=self._drawn(), created_ms=self._surroundings.wall_ms(), rules=rules or LogRules()
        )
        await logs.create(self.client.cluster, name, record)

    def writer(self, name: str, *, address: str = "") -> AbstractAsyncContextManager[LogWriter]:
        """Take a log over for writing, until the block ends.

        The writer before, if there is one, gets no acknowledgement any more. ``address`` stands in
        the log's record, for anyone to read.
        """
        zone = self.client.config.zone
        mark = LogWriterMark(
            token=self._drawn(), zone=None if zone is None else ZoneName(zone), address=address
        )
        return log_writer.opened(
            self.client, name, mark, self._surroundings.wall_ms, budget=self._budget
        )

    def reader(self, name: str) -> LogReader:
        """Give a reader of a log; the log is looked up when it is read."""
        return LogReader(self.client, name)

    async def record(self, name: str) -> LogRecord:
        """Give the record of a log, no older than this call; raises ``NoLogError``."""
        return await logs.find(self.client.cluster, name)

    async def set_rules(self, name: str, rules: LogRules) -> None:
        """Set the rules of a log. Its writer follows them from its next ledger on.

        Raises ``BadLogRules`` for rules that no ledger could follow.
        """
        self._check(rules)
        record = await self.record(name)
        await logs.rule(self.client.cluster, name, record.id, rules)

    async def trim(self, name: str, sequence: int) -> None:
        """Forget all messages before one; ledgers that have only such messages are deleted.

        A log that is trimmed there already stays as it is. Raises ``NotInLog`` for a message that
        is ahead of the end.
        """
        record = await self.record(name)
        if sequence > record.start_sequence:
            start = await locating.by_sequence(self.client, name, record, sequence)
            await logs.trim(self.client.cluster, name, record.id, start, sequence)
        await self._reclaim(name, record.id)

    async def delete(self, name: str) -> None:
        """Delete a log with all its messages; raises ``NoLogError``."""
        record = await self.record(name)
        await logs.begin_deletion(self.client.cluster, name, record.id)
        await self._reclaim(name, record.id)
        await logs.remove(self.client.cluster, name, record.id)

    async def namespaces(self) -> AsyncGenerator[str, None]:
        """List the namespaces that have logs; ``""``: logs whose name has one part."""
        async for namespace in log_listing.namespaces(self.client.cluster):
            yield namespace

    async def names(self, namespace: str = "") -> AsyncGenerator[str, None]:
        """List the logs of one namespace, in an order that is always the same."""
        async for name in log_listing.names(self.client.cluster, namespace):
            yield name

    async def _reclaim(self, name: str, log_id: str) -> None:
        """Delete the ledgers that are no part of a log any more."""
        cluster = self.client.cluster
        while step := await logs.reclaiming(cluster, name, await logs.find(cluster, name)):
            await together(self.client.delete(one, by="log") for one in step.ledgers)
            await logs.reclaimed(cluster, name, log_id, step.up_to)

    def _check(self, rules: LogRules) -> None:
        """Refuse limits that are no limits, and quorums that placement refuses."""
        for what, limit in (
            ("bytes of a ledger", rules.rotate_bytes),
            ("messages of a ledger", rules.rotate_messages),
            ("milliseconds of a ledger", rules.rotate_after_ms),
            ("milliseconds without full quorums", rules.downgrade_after_ms),
            ("milliseconds that messages are kept", rules.keep_ms),
            ("bytes that are kept", rules.keep_bytes),
        ):
            if limit is not None and limit < 1:
                raise errors.BadLogRules(f"{limit} {what}: it must be 1 or more")
        if rules.quorums is not None:
            judged = legality.judge(rules.quorums, self.client.bookies.policy.placement)
            for broken in judged.refusals:
                raise errors.BadLogRules(
                    f"quorums {rules.quorums}: {broken.reason} (for example: {broken.example}); "
                    "nothing was changed"
                )

    def _drawn(self) -> str:
        """Draw an id: 32 hexadecimal digits."""
        chance = self._surroundings.chance
        words = [int(chance.random() * (1 << _WORD_BITS)) for _ in range(_ID_WORDS)]
        return "".join(f"{word:08x}" for word in words)
