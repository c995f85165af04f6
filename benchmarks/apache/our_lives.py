"""What our driver does with whole ledgers: creates and closes many, rolls them, writes beside."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from benchmarks.apache import protocol
from zonekeeper.client.api.client import Client
from zonekeeper.client.api.writer import Writer
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums

_TICK_S: Final = 0.001


def quorums_of(given: protocol.Given) -> Quorums:
    """Give the quorums of a command."""
    return Quorums(
        ensemble=given.number("ensemble", 3),
        write=given.number("write", 3),
        ack=given.number("ack", 2),
    )


def done(entries: int, began: float, latencies: list[float] | None = None) -> dict[str, object]:
    """Give the answer of what took its time."""
    found: dict[str, object] = {"entries": entries, "seconds": time.perf_counter() - began}
    if latencies is not None:
        found["latencies_us"] = [round(one * 1e6) for one in latencies]
    return found


async def create_close(client: Client, given: protocol.Given) -> dict[str, object]:
    """Create ledgers and close them, so many at a time; they are deleted behind the time."""
    room, latencies = asyncio.Semaphore(given.number("outstanding")), list[float]()
    made: list[LedgerId] = []

    async def one() -> None:
        sent = time.perf_counter()
        writer = await client.create(quorums=quorums_of(given))
        made.append(writer.ledger_id)
        await writer.close()
        latencies.append(time.perf_counter() - sent)
        room.release()

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(given.number("ledgers")):
            await room.acquire()
            group.create_task(one())
    answer = done(len(latencies), began, latencies)
    for ledger_id in made:
        await client.delete(ledger_id)
    return answer


@asynccontextmanager
async def beside(client: Client, payload: bytes, given: protocol.Given) -> AsyncIterator[list[int]]:
    """Append to a ledger of its own at a rate while the block runs; it says how many entries."""
    per_second, sent = given.number("under_per_second", 0), [0]
    if per_second == 0:
        yield sent
        return
    entry = payload[: given.number("under_size")]
    writer = await client.create(quorums=quorums_of(given))

    async def write() -> None:
        began = time.perf_counter()
        while True:
            due = int((time.perf_counter() - began) * per_second) + 1
            while sent[0] < due:
                await writer.append(entry)
                sent[0] += 1
            await asyncio.sleep(_TICK_S)

    async with asyncio.TaskGroup() as group:
        writing = group.create_task(write())
        yield sent
        writing.cancel()
    await writer.close()
    await client.delete(writer.ledger_id)


class Rolling:
    """Ledgers one behind the other; of two that are full, the second is deleted at once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._ended: deque[LedgerId] = deque()
        self._kept: list[LedgerId] = []

    async def end(self, writer: Writer) -> None:
        """Close a ledger; delete the second of two."""
        await writer.close()
        self._ended.append(writer.ledger_id)
        if len(self._ended) == 2:
            self._kept.append(self._ended.popleft())
            await self._client.delete(self._ended.popleft())

    async def clear(self) -> None:
        """Delete all that is left."""
        for ledger_id in (*self._ended, *self._kept):
            await self._client.delete(ledger_id)


async def sustain(client: Client, payload: bytes, given: protocol.Given) -> dict[str, object]:
    """Append at a rate for long; latencies are those of every so-and-so-many-th entry."""
    per_second, every = given.number("per_second"), given.number("every")
    entries = per_second * given.number("milliseconds") // 1_000
    ledger_entries = max(1, given.number("ledger_bytes") // len(payload))
    latencies, rolling = list[float](), Rolling(client)

    async def hear(writer: Writer, entry_id: EntryId, meant: float) -> None:
        await writer.flushed(entry_id)
        latencies.append(time.perf_counter() - meant)

    writer = await client.create(quorums=quorums_of(given))
    began, sent = time.perf_counter(), 0
    async with asyncio.TaskGroup() as group:
        following = group.create_task(_made(client, given))
        while sent < entries:
            due = int((time.perf_counter() - began) * per_second) + 1
            while sent < min(due, entries):
                if sent > 0 and sent % ledger_entries == 0:
                    group.create_task(rolling.end(writer))
                    writer = await following
                    following = group.create_task(_made(client, given))
                entry_id = await writer.append(payload)
                if sent % every == 0:
                    group.create_task(hear(writer, entry_id, began + sent / per_second))
                sent += 1
            await asyncio.sleep(_TICK_S)
    await writer.flush()
    answer = done(entries, began, latencies)
    for last in (writer, following.result()):
        await rolling.end(last)
    await rolling.clear()
    return {**answer, "ledgers": entries // ledger_entries + 1}


async def _made(client: Client, given: protocol.Given) -> Writer:
    return await client.create(quorums=quorums_of(given))
