"""Ways to load a writer: as fast as it goes, one at a time, or at a rate that does not wait.

At a rate, each entry has the moment at which it was *meant* to be sent; its latency counts from
there, so that a stall is seen by everything that it held up.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from zonekeeper.client.api.writer import Writer
from zonekeeper.placement.base.ids import EntryId

#: How often a load at a rate looks what is due.
_TICK_S: Final = 0.001


async def saturate(writers: Sequence[Writer], payload: bytes, entries: int) -> None:
    """Append to all ledgers as fast as they take it, and wait for the last acknowledgement."""
    share = entries // len(writers)

    async def fill(writer: Writer) -> None:
        append = writer.append
        for _ in range(share):
            await append(payload)
        await writer.flush()

    async with asyncio.TaskGroup() as group:
        for writer in writers:
            group.create_task(fill(writer))


async def one_at_a_time(writer: Writer, payload: bytes, entries: int) -> list[float]:
    """Append, wait for the acknowledgement, append the next; give the latencies."""
    latencies = []
    for _ in range(entries):
        began = time.perf_counter()
        await writer.append_and_wait(payload)
        latencies.append(time.perf_counter() - began)
    return latencies


async def at_rate(
    writers: Sequence[Writer], payload: bytes, *, per_second: int, entries: int
) -> list[float]:
    """Append at a rate, over all ledgers in turn; give the latencies from the intended times.

    What was appended before is acknowledged.
    """
    began = time.perf_counter()
    meant: list[list[float]] = [[] for _ in writers]
    appended = [asyncio.Event() for _ in writers]
    latencies: list[float] = []
    share = entries // len(writers)

    async def hear(writer: Writer, due: list[float], more: asyncio.Event) -> None:
        heard, before = 0, writer.last_confirmed + 1
        while heard < share:
            while heard >= len(due):
                more.clear()
                await more.wait()
            await writer.flushed(EntryId(before + heard))
            now, confirmed = time.perf_counter(), writer.last_confirmed + 1 - before
            latencies.extend(now - at for at in due[heard:confirmed])
            heard = confirmed

    async with asyncio.TaskGroup() as group:
        for listening in zip(writers, meant, appended, strict=True):
            group.create_task(hear(*listening))
        sent = 0
        while sent < share * len(writers):
            due = int((time.perf_counter() - began) * per_second) + 1
            for number in range(sent, min(due, share * len(writers))):
                at = number % len(writers)
                await writers[at].append(payload)
                meant[at].append(began + number / per_second)
                appended[at].set()
                sent += 1
            await asyncio.sleep(_TICK_S)
    return latencies
