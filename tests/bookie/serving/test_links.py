"""A client's links to the real bookie: the simulated network and gRPC must not differ."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest

from tests.bookie.running import BOOKIE, KEY, LEDGER, frame, opening, packet, running
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.wire.contract import service
from zonekeeper.wire.contract.links import BookieLink
from zonekeeper.wire.formats import errors
from zonekeeper.wire.grpc import grpc_link
from zonekeeper.wire.grpc.grpc_server import GrpcServer
from zonekeeper.wire.host.serving import Host
from zonekeeper.wire.twin.twin import Network


class Sink:
    """Hears what becomes of a lane's frames."""

    def __init__(self) -> None:
        self.outcomes: asyncio.Queue[tuple[int, errors.ProtocolError | None]] = asyncio.Queue()

    def acked(self, number: int) -> None:
        self.outcomes.put_nowait((number, None))

    def failed(self, number: int, error: errors.ProtocolError) -> None:
        self.outcomes.put_nowait((number, error))

    def room(self) -> None:
        pass


@asynccontextmanager
async def linked(kind: str, files: MemoryFileSystem) -> AsyncIterator[BookieLink]:
    """A link to a bookie that runs on these files."""
    async with running(files) as bookie, asyncio.TaskGroup() as tasks:
        host = Host(bookie)
        link: BookieLink
        if kind == "twin":
            network = Network(tasks=tasks, chance=random.Random(1))
            network.put_up(BOOKIE, host)
            link = network.link("client", BOOKIE)
            yield link
            await link.close()
            return
        server = GrpcServer(host, "127.0.0.1:0", name=BOOKIE, credentials=None)
        await server.start()
        address = f"127.0.0.1:{server.port}"
        link = grpc_link.connect(
            BOOKIE, address, credentials=None, tasks=tasks, chance=random.Random(1)
        )
        yield link
        await link.close()
        await server.stop(0)


@pytest.fixture(params=["twin", "grpc"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def reading(first: int, last: int, *, fence: bool = False) -> service.ReadRequest:
    return service.ReadRequest(
        ledger_id=LEDGER,
        first_entry_id=EntryId(first),
        last_entry_id=EntryId(last),
        bytes_max=1 << 20,
        fence_key=KEY if fence else None,
    )


async def test_a_ledgers_life_over_a_link(kind: str) -> None:
    files = MemoryFileSystem()
    async with linked(kind, files) as link:
        sink = Sink()
        lane = await link.open_fragment(opening(), sink)
        assert [lane.append(frame(0, 1)), lane.append(frame(2, lac=1))] == [0, 1]
        assert [await sink.outcomes.get() for _ in range(2)] == [(0, None), (1, None)]

        reply = await link.read(reading(0, 9))
        assert [list(part.entry_ids) for part in reply.frames] == [[0, 1], [2]]
        assert (reply.next_entry_id, reply.last_add_confirmed) == (10, 1)

        evidence = await link.fence(LEDGER, KEY)
        assert evidence == service.LacEvidence(explicit_lac=None, last_entry=packet(2, lac=1))
        lane.append(frame(3))
        number, refused = await sink.outcomes.get()
        assert (number, type(refused)) == (2, errors.Fenced)
    async with linked(kind, files) as link:
        fenced = await link.read(reading(2, 3, fence=True))
        assert [list(part.entry_ids) for part in fenced.frames] == [[2]]
        assert fenced.last_add_confirmed is None
        sink = Sink()
        lane = await link.open_fragment(opening(), sink)
        lane.append(frame(3, recovery=True))
        assert await sink.outcomes.get() == (0, None)


async def test_many_frames_in_flight_are_each_acknowledged(kind: str) -> None:
    async with linked(kind, MemoryFileSystem()) as link:
        sink = Sink()
        lane = await link.open_fragment(opening(), sink)
        count = 500
        for number in range(count):
            lane.append(frame(number))

        outcomes = dict([await sink.outcomes.get() for _ in range(count)])

        assert outcomes == dict.fromkeys(range(count))
        ranges = await link.list_entries(
            service.ListEntriesRequest(ledger_id=LEDGER, first_entry_id=EntryId(0), ranges_max=9)
        )
        assert ranges == service.EntryRanges(
            ranges=((EntryId(0), EntryId(count - 1)),), complete=True
        )


async def test_a_tail_follows_a_writer(kind: str) -> None:
    async with linked(kind, MemoryFileSystem()) as link:
        sink = Sink()
        lane = await link.open_fragment(opening(), sink)
        lane.append(frame(0))
        await sink.outcomes.get()
        request = service.TailRequest(
            ledger_id=LEDGER, first_entry_id=EntryId(0), bytes_max=1 << 20, quiet_ms=60_000
        )
        seen: list[int] = []
        async with aclosing(link.tail(request)) as updates:
            assert (await anext(updates)).last_add_confirmed == -1
            for number in range(1, 5):
                lane.append(frame(number, lac=number - 1))
                update = await anext(updates)
                seen += [entry for part in update.frames for entry in part.entry_ids]
                assert update.last_add_confirmed == number - 1

        assert seen == [0, 1, 2, 3]


async def test_errors_keep_their_kind_over_a_link(kind: str) -> None:
    async with linked(kind, MemoryFileSystem()) as link:
        with pytest.raises(errors.NoSuchLedger):
            await link.read(reading(0, 0))
        await link.compact(major=False)
        await link.set_read_only(read_only=True)
        assert (await link.info()).state is service.BookieState.READ_ONLY
        sink = Sink()
        lane = await link.open_fragment(opening(), sink)
        lane.append(frame(0))
        assert isinstance((await sink.outcomes.get())[1], errors.ReadOnly)
        await link.force(LEDGER)
