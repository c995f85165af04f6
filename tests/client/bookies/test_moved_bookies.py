"""Bookies come up at new addresses, as pods do: a client that knew the old ones asks at the new.

Real services on real ports. The old addresses refuse connections, or stay silent.
"""

import asyncio
import dataclasses
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.client.api.test_addresses import BOOKIES, CONFIG, LINKS, cluster, register
from tests.support.fronts import Fronts
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.bookies import link_pool
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.link.stream_link import StreamLink

#: Of links to an address that stays silent, which only this limit finds out.
IMPATIENT: Final = dataclasses.replace(
    LINKS, connect_timeout_ms=500, call_timeout_ms=500, read_timeout_ms=500
)
LIMIT_S: Final = 120

Leaving = Callable[[Fronts, int], Awaitable[None]]


async def _refuse(ways: Fronts, silent: int) -> None:
    del silent
    for bookie_id in BOOKIES:
        await ways[bookie_id].close()


async def _fall_silent(ways: Fronts, silent: int) -> None:
    for bookie_id in BOOKIES:
        ways[bookie_id].leads_to = silent
        ways[bookie_id].cut()


@asynccontextmanager
async def left(
    folder: Path, leaving: Leaving
) -> AsyncIterator[tuple[Client, Writer, Callable[[], Awaitable[None]]]]:
    """Give a client with links to all bookies, another one's writer, and what lets all move."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with (
            cluster(folder) as (uri, ways),
            clients.connect(uri, CONFIG) as client,
            clients.connect(uri, CONFIG) as other,
        ):
            for bookie_id in BOOKIES:
                await (await client.bookies.pool.link(bookie_id)).info()
            writer = await other.create()
            await writer.append_and_wait(b"zero")
            await writer.tell_confirmed()

            async def move() -> None:
                for bookie_id in BOOKIES:
                    link = await client.bookies.pool.current(bookie_id)
                    assert isinstance(link, StreamLink)
                    link._settings = IMPATIENT
                    await register(uri, bookie_id, ways.home(bookie_id))
                await leaving(ways, silent.getsockname()[1])

            yield client, writer, move


async def _recover(client: Client, ledger_id: LedgerId) -> None:
    assert (await client.open(ledger_id, recover=True)).last_confirmed == 0


async def _look(client: Client, ledger_id: LedgerId) -> None:
    assert (await client.open(ledger_id, recover=False)).last_confirmed == 0


async def _ask(client: Client, _: LedgerId) -> None:
    for bookie_id in BOOKIES:
        info = await (await client.bookies.pool.link(bookie_id)).info()
        assert info.bookie_id == bookie_id


@pytest.mark.parametrize("leaving", [_refuse, _fall_silent])
@pytest.mark.parametrize("question", [_recover, _look, _ask])
async def test_the_first_question_finds_a_bookie_where_it_is_now(
    question: Callable[[Client, LedgerId], Awaitable[None]],
    leaving: Leaving,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link_pool, "LOOK_UP_EVERY_MS", 0)
    async with asyncio.timeout(LIMIT_S), left(tmp_path, leaving) as (client, writer, move):
        await move()
        await question(client, writer.ledger_id)
        # Something may have gone through before it was cut. Of a ledger that is closed by now a
        # recovery asks nobody, so the links are asked themselves.
        while client.counters.links_moved < 2:
            await _ask(client, writer.ledger_id)


async def test_a_tail_goes_on_at_the_new_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_pool, "LOOK_UP_EVERY_MS", 0)
    async with asyncio.timeout(LIMIT_S), left(tmp_path, _refuse) as (client, writer, move):
        reader = await client.open(writer.ledger_id, recover=False)
        tail = reader.follow()
        assert (await anext(tail)).payload == b"zero"
        await move()
        await writer.append_and_wait(b"one")
        assert (await anext(tail)).payload == b"one"
        await tail.close()
