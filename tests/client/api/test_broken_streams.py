"""A connection that breaks in the middle of a frame, or falls silent there (scenario S11)."""

import asyncio
import dataclasses
import enum
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.client.api.test_over_grpc import cluster_of
from tests.client.patience import PATIENT
from tests.support.fronts import Front
from zonekeeper.client.api import client as clients

ENTRY_BYTES = 50_000
ENTRIES = 60


class Ending(enum.Enum):
    RESET = "reset"
    SILENT = "silent"


class BrokenFront(Front):
    """Stands in front of a bookie; the first connection ends after so many bytes to it."""

    def __init__(self, ending: Ending, after_bytes: int) -> None:
        super().__init__(leads_to=0)
        self.ending = ending
        self.left_bytes = after_bytes
        self.ended = asyncio.Event()

    async def before(self, zone: str, port: int) -> int:
        """Stand before the bookie of zone a; give the port to be registered."""
        if zone != "a":
            return port
        self.leads_to = port
        await self.open()
        return self.port

    async def pass_there(self, source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        while data := await source.read(1 << 16):
            if not self.ended.is_set() and len(data) > self.left_bytes:
                to.write(data[: self.left_bytes])
                await to.drain()
                self.ended.set()
                if self.ending is Ending.SILENT:
                    await asyncio.Event().wait()
                return
            self.left_bytes -= 0 if self.ended.is_set() else len(data)
            to.write(data)
            await to.drain()


@asynccontextmanager
async def broken(ending: Ending, after_bytes: int) -> AsyncIterator[BrokenFront]:
    front = BrokenFront(ending, after_bytes)
    try:
        yield front
    finally:
        await front.close()


@pytest.mark.parametrize("ending", Ending)
@pytest.mark.parametrize("after_bytes", [70_001, 1_000_003])
async def test_s11_a_stream_that_breaks_inside_a_frame_costs_no_entry(
    tmp_path: Path, ending: Ending, after_bytes: int
) -> None:
    chance = random.Random(after_bytes)
    sent = [chance.randbytes(ENTRY_BYTES) for _ in range(ENTRIES)]
    links = dataclasses.replace(PATIENT.links, back_off_first_ms=10)
    config = dataclasses.replace(PATIENT, links=links)
    async with (
        broken(ending, after_bytes) as front,
        cluster_of(tmp_path, "abc", front.before) as (uri, _),
        clients.connect(uri, config) as client,
    ):
        writer = await client.create()
        await writer.append_many(sent)
        await writer.flush()
        async with asyncio.timeout(120):
            await front.ended.wait()
        await writer.close()
        reader = await client.open(writer.ledger_id)
        assert [bytes(entry.payload) async for entry in reader.read_entries()] == sent
        assert not client.counters.bad_copies
