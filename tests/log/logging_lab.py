"""Logs in a small cluster in virtual time: `tests.client.lab` with a log in it."""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Final

from tests.client.lab import Lab
from zonekeeper.client.api.client import Client
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.log.api import log_writer
from zonekeeper.log.api.log_reader import LogReader, ReadMessage
from zonekeeper.log.api.log_writer import LogWriter
from zonekeeper.log.base.log_figures import LogReaderFigures, LogWriterFigures
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.log.writing.budget import LogBudget
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.log_record import LogRecord, LogRules, LogWriterMark
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs import logs
from zonekeeper.placement.base.ids import ZoneName

NAME: Final = "orders/eu-1"
LOG_ID: Final = "0f" * 16
NEW: Final = LogRecord(id=LOG_ID, created_ms=1)
#: Ledgers of ten messages: many rotations.
SHORT: Final = LogRules(rotate_messages=10)
#: A writer that never tells its LAC by itself.
SILENT: Final = ClientConfig(zone=ZoneName("a"), quiet_ms=3_600_000)


class WallClock:
    """A wall clock that a test sets."""

    def __init__(self) -> None:
        self.ms = 1_000

    def __call__(self) -> int:
        return self.ms


async def create(lab: Lab, rules: LogRules | None = None, name: str = NAME) -> None:
    await logs.create(await lab.cluster(), name, replace(NEW, rules=rules or LogRules()))


def writing(  # noqa: PLR0913 each is a wish of its own, and has a name
    client: Client,
    token: str = "first",
    wall: WallClock | None = None,
    budget: LogBudget | None = None,
    figures: LogWriterFigures | None = None,
    *,
    name: str = NAME,
    deferred_sync: bool = False,
) -> AbstractAsyncContextManager[LogWriter]:
    """Open a log for writing, as a client does."""
    return log_writer.opened(
        client,
        name,
        LogWriterMark(token=token, zone=ZoneName("a")),
        wall or WallClock(),
        budget=budget,
        figures=figures,
        deferred_sync=deferred_sync,
    )


def message(number: int) -> LogMessage:
    return LogMessage(payload=b"message %d" % number, key=b"%d" % (number % 7))


def numbers(first: int, count: int) -> Iterable[LogMessage]:
    return map(message, range(first, first + count))


async def until_begins(cluster: Cluster, sequence: int, name: str = NAME) -> None:
    """Wait until the last ledger of a log begins with the message of a sequence."""
    async with logs.watch(cluster, name) as records:
        async for record in records:
            if record is not None and [one.sequence for one in record.unended] == [sequence]:
                return


async def append_each(
    cluster: Cluster, writer: LogWriter, many: Iterable[LogMessage], *, every: int, name: str = NAME
) -> None:
    """Append messages one by one, so that each ledger gets ``every`` messages, and none more.

    A ledger that is full takes messages until the next one is made ahead. So the message that is
    to be the first of the next one waits for that.
    """
    for number, one in enumerate(many):
        if number and number % every == 0:
            await until_begins(cluster, writer.next_sequence, name)
        await writer.append_and_wait(one, stored=True)


def reader_of(client: Client, name: str = NAME) -> LogReader:
    return LogReader(client, name, LogReaderFigures())


async def read_all(client: Client, start: MessageId | None = None) -> list[ReadMessage]:
    return [one async for many in reader_of(client).read(start) for one in many]


async def check_whole(lab: Lab, count: int, reader: str = "auditor") -> list[ReadMessage]:
    """Hold that a fresh reader sees exactly the messages 0 to ``count - 1``, in order."""
    async with lab.client(reader) as client:
        found = await read_all(client)
    assert [one.message for one in found] == list(numbers(0, count))
    assert [one.sequence for one in found] == list(range(count))
    assert [one.id for one in found] == sorted({one.id for one in found})
    return found


async def record_of(lab: Lab) -> LogRecord:
    return await logs.find(await lab.cluster(), NAME)


async def overwrite(cluster: Cluster, path: str, value: bytes) -> None:
    """Write over a node, whatever stands in it."""
    node = await cluster.store.get(path, sync=True)
    assert node is not None
    await cluster.store.put(path, value, version=node.version)
