"""A stranger at a bookie's two ports: without the key of a ledger, nothing of it; with it, all."""

import asyncio
import random
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bookie.life.process_world import BOOKIE, INSTANCE, Started, World, started
from tests.bookie.running import KEY, LEDGER, OTHER_KEY, frame, opening
from tests.bookie.serving.test_links import Sink, reading
from tests.wire.link.worlds import PATIENT
from zonekeeper.metadata.bookies import registration
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.contract.links import BookieLink
from zonekeeper.wire.contract.service import ListEntriesRequest
from zonekeeper.wire.formats import bookie_names, errors
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.grpc import grpc_link
from zonekeeper.wire.socket import socket_link
from zonekeeper.wire.socket.socket_link import SocketPlace

NAME = bookie_names.name_of(BOOKIE, INSTANCE)
LIST = ListEntriesRequest(ledger_id=LEDGER, first_entry_id=EntryId(0), ranges_max=9)


@asynccontextmanager
async def over(way: str, world: World, bookie: Started) -> AsyncIterator[BookieLink]:
    """Give a link to a bookie's process over gRPC or the socket lane."""
    async with world.cluster() as cluster:
        info = await registration.read_service_info(cluster, BOOKIE)
    assert info is not None
    assert info.socket is not None
    lane = Address("127.0.0.1", info.socket.port)
    async with asyncio.timeout(120), asyncio.TaskGroup() as tasks:
        chance = random.Random(1)
        if way == "grpc":
            link = grpc_link.connect(
                NAME, bookie.grpc, credentials=None, tasks=tasks, chance=chance, settings=PATIENT
            )
        else:
            place = SocketPlace(name=NAME, address=lane, tls=None)
            link = socket_link.connect(place, tasks=tasks, chance=chance, settings=PATIENT)
        try:
            yield link
        finally:
            await link.close()


async def write(link: BookieLink, entry_id: int) -> None:
    sink = Sink()
    wanted = replace(opening(), create_token=9)
    lane = await link.open_fragment(wanted, sink)
    lane.append(frame(entry_id))
    assert await sink.outcomes.get() == (0, None)


async def test_nobody_gets_in_without_the_key_over_either_way(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.make()
    async with started(world, listen_socket="127.0.0.1:0", ledger_keys="on") as bookie:
        async with over("grpc", world, bookie) as owner:
            await write(owner, 0)
        for way in ("grpc", "socket"):
            async with over(way, world, bookie) as stranger:
                with pytest.raises(errors.LedgerDeleted):  # one that is yet to come
                    await stranger.fence(LedgerId(8), OTHER_KEY)
                for key in (None, OTHER_KEY):
                    for refused in (
                        stranger.read(replace(reading(0, 9), key=key)),
                        stranger.read_lac(LEDGER, key),
                        stranger.list_entries(replace(LIST, key=key)),
                        stranger.force(LEDGER, key),
                    ):
                        with pytest.raises(errors.UnauthorizedAccess):
                            await refused
                with pytest.raises(errors.UnauthorizedAccess):
                    await stranger.fence(LEDGER, OTHER_KEY)
                with pytest.raises(errors.UnauthorizedAccess):
                    await stranger.open_fragment(opening(key=OTHER_KEY), Sink())
            async with over(way, world, bookie) as owner:
                await write(owner, 1)  # nothing was fenced
                reply = await owner.read(replace(reading(0, 9), key=KEY))
                assert sum(map(len, reply.frames)) >= 1
                assert (await owner.read_lac(LEDGER, KEY)).last_entry is not None
                assert (await owner.list_entries(replace(LIST, key=KEY))).ranges == ((0, 1),)
        shown = await asyncio.to_thread(_metrics, bookie.http_port)
        name = "zonekeeper_bookie_keys_unproven_total"
        for operation in ("read", "read-lac", "list", "force"):
            assert f'{name}{{operation="{operation}",rule="on"}} 4' in shown
        async with over("socket", world, bookie) as owner:
            assert (await owner.fence(LEDGER, KEY)).last_entry is not None


def _metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text: str = answer.read().decode()
        return text
