"""One bookie, and links to it: over gRPC or the socket lane on the loopback, or in memory.

A scenario is a coroutine function of a ``World``; it says what must hold for every transport, so it
knows none of the three.
"""

import asyncio
import functools
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from tests.support import playing, virtual_time
from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.contract import service
from zonekeeper.wire.contract.inlets import Inlet, Outlet
from zonekeeper.wire.contract.links import AppendLane, BookieLink, LinkSettings
from zonekeeper.wire.formats import carriers, digests, entries, errors, frames, openings, versions
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.formats.frames import Flags, Frame
from zonekeeper.wire.formats.versions import WireVersions
from zonekeeper.wire.grpc import grpc_link, grpc_server, tls
from zonekeeper.wire.host.access import Guard
from zonekeeper.wire.host.host_limits import HostLimits
from zonekeeper.wire.host.serving import Host
from zonekeeper.wire.link.stream_link import StreamLink
from zonekeeper.wire.socket import accepting, socket_link, socket_server
from zonekeeper.wire.twin import twin

BOOKIE: Final = BookieId("rack-a-0")
PASSWORD: Final = b"passwd"
KEY: Final = digests.master_key(PASSWORD)
#: No busy machine comes to these limits; a test that is about one of them sets it.
PATIENT: Final = LinkSettings(
    connect_timeout_ms=60_000,
    append_timeout_ms=60_000,
    read_timeout_ms=60_000,
    call_timeout_ms=60_000,
)


@asynccontextmanager
async def linked(
    bookie: BookieId, address: str, credentials: tls.ClientCredentials | None = None
) -> AsyncIterator[BookieLink]:
    """Give a patient link over gRPC, with tasks of its own."""
    async with asyncio.TaskGroup() as tasks:
        link = grpc_link.connect(
            bookie,
            address,
            credentials=credentials,
            tasks=tasks,
            chance=random.Random(1),
            settings=PATIENT,
        )
        try:
            yield link
        finally:
            await link.close()


class CountedStream:
    """An Append stream of a host, of which the items that came, and those that left, are counted.

    It stands between the host's stream and the transport, on both ways.
    """

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet
        self.inlet: Inlet | None = None
        self.came = self.left = 0
        #: The version bytes of the carriers that came and left.
        self.versions: set[int] = set()
        self._more = asyncio.Event()

    @property
    def waiting(self) -> int:
        """How many have come and not left."""
        return self.came - self.left

    async def until_waiting(self, count: int) -> None:
        """Wait until at least so many have come and not left."""
        while self.waiting < count:
            self._more.clear()
            await self._more.wait()

    @property
    def has_room(self) -> bool:
        return self._outlet.has_room

    def put(self, message: bytes) -> None:
        self._outlet.put(message)
        self.versions.add(message[4])
        self.left += int.from_bytes(message[16:20], "big")

    def hold(self) -> None:
        self._outlet.hold()

    def go_on(self) -> None:
        self._outlet.go_on()

    def taken(self, message: bytes | bytearray) -> None:
        if message.startswith(carriers.MAGIC) and len(message) >= carriers.HEADER_BYTES:
            self.versions.add(message[4])
            self.came += int.from_bytes(message[16:20], "big")
            self._more.set()
        assert self.inlet is not None
        self.inlet.taken(message)

    def has_room_again(self) -> None:
        assert self.inlet is not None
        self.inlet.has_room_again()


class WatchedHost(Host):
    """A host that says when an Append stream has ended, and what went through each."""

    def __init__(
        self,
        bookie: service.BookieService,
        limits: HostLimits,
        speaks: WireVersions | None = versions.SPOKEN,
    ) -> None:
        super().__init__(bookie, limits, speaks=speaks)
        self.stream_ended = asyncio.Event()
        self.pipes: list[CountedStream] = []

    @contextmanager
    def appending(
        self, outlet: Outlet, wire_version: int, guard: Guard | None = None
    ) -> Iterator[Inlet]:
        counted = CountedStream(outlet)
        self.pipes.append(counted)
        try:
            with super().appending(counted, wire_version, guard) as inlet:
                counted.inlet = inlet
                yield counted
        finally:
            self.stream_ended.set()


class World(ABC):
    """What a scenario can do to both ends."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self.tasks = tasks
        self.disk = Disk()
        self.limits = HostLimits()
        self.bookie = ReferenceBookie(BOOKIE, self.disk)
        self.speaks: WireVersions | None = versions.SPOKEN
        self.host = WatchedHost(self.bookie, self.limits)
        self.links: list[StreamLink] = []

    @abstractmethod
    async def start(self) -> None:
        """Let the bookie serve."""

    @abstractmethod
    async def crash(self) -> None:
        """End the bookie without a word; the disk remains."""

    @abstractmethod
    def connect(self, client: str, settings: LinkSettings) -> StreamLink:
        """Make a link."""

    def link(self, settings: LinkSettings | None = None) -> StreamLink:
        link = self.connect(f"client-{len(self.links)}", settings or PATIENT)
        self.links.append(link)
        return link

    async def restart(self) -> None:
        await self.crash()
        self.bookie = ReferenceBookie(BOOKIE, self.disk)
        await self.start()

    async def close(self) -> None:
        for link in self.links:
            await link.close()


class GrpcWorld(World):
    """Real sockets on the loopback."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        super().__init__(tasks)
        self._server: grpc_server.GrpcServer | None = None
        self._port = 0

    async def start(self) -> None:
        self.host = WatchedHost(self.bookie, self.limits, self.speaks)
        self._server = grpc_server.GrpcServer(
            self.host, f"127.0.0.1:{self._port}", name=BOOKIE, credentials=None
        )
        self._port = self._server.port
        await self._server.start()

    async def crash(self) -> None:
        assert self._server is not None
        await self._server.stop(0)
        self._server = None

    def connect(self, client: str, settings: LinkSettings) -> StreamLink:
        return grpc_link.connect(
            BOOKIE,
            f"127.0.0.1:{self._port}",
            credentials=None,
            tasks=self.tasks,
            chance=random.Random(client),
            settings=settings,
        )

    async def close(self) -> None:
        await super().close()
        if self._server is not None:
            await self._server.stop(0)

    @staticmethod
    def run(scenario: Callable[[World], Awaitable[None]]) -> None:
        asyncio.run(_play(GrpcWorld, scenario))


class SocketWorld(World):
    """The socket lane, on the loopback."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        super().__init__(tasks)
        self.server: socket_server.SocketServer | None = None
        self.port_limits = socket_server.SocketLimits()
        self.figures = accepting.SocketFigures()
        self._address = Address("127.0.0.1", 0)

    @property
    def port(self) -> int:
        """Where the bookie listens, or listened."""
        return self._address.port

    async def start(self) -> None:
        self.host = WatchedHost(self.bookie, self.limits, self.speaks)
        self.server = socket_server.SocketServer(
            self.host,
            self._address,
            name=BOOKIE,
            tls=None,
            limits=self.port_limits,
            figures=self.figures,
        )
        self._address = Address("127.0.0.1", self.server.port)
        await self.server.start()

    async def crash(self) -> None:
        assert self.server is not None
        await self.server.stop(0)
        self.server = None

    def connect(self, client: str, settings: LinkSettings) -> StreamLink:
        return socket_link.connect(
            socket_link.SocketPlace(name=BOOKIE, address=self._address, tls=None),
            tasks=self.tasks,
            chance=random.Random(client),
            settings=settings,
        )

    async def close(self) -> None:
        await super().close()
        if self.server is not None:
            await self.server.stop(0)

    @staticmethod
    def run(scenario: Callable[[World], Awaitable[None]]) -> None:
        asyncio.run(_play(SocketWorld, scenario))


class TwinWorld(World):
    """The network in memory, on virtual time."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        super().__init__(tasks)
        self.network = twin.Network(
            tasks=tasks,
            chance=random.Random(1),
            weather=twin.Weather(delay_min_ms=0.1, delay_max_ms=2),
        )

    async def start(self) -> None:
        self.host = WatchedHost(self.bookie, self.limits, self.speaks)
        self.network.put_up(BOOKIE, self.host)

    async def crash(self) -> None:
        self.network.take_down(BOOKIE)

    def connect(self, client: str, settings: LinkSettings) -> StreamLink:
        return self.network.link(client, BOOKIE, settings)

    @staticmethod
    def run(scenario: Callable[[World], Awaitable[None]]) -> None:
        virtual_time.run(_play(TwinWorld, scenario))


async def _play(kind: type[World], scenario: Callable[[World], Awaitable[None]]) -> None:
    async with asyncio.timeout(300), asyncio.TaskGroup() as tasks:
        world = kind(tasks)
        await world.start()
        try:
            await scenario(world)
        finally:
            await world.close()


Run = Callable[[Callable[[World], Awaitable[None]]], None]


def play(scenario: Callable[[World], Awaitable[None]], *, run: Run) -> None:
    """Play a scenario over the transport that ``run`` stands for."""
    run(scenario)


#: Each test is played once for each transport: the fixture ``run`` says on which.
played = functools.partial(playing.by(play), run=playing.from_pytest(lambda run: run))
played_on_twin = playing.by(TwinWorld.run)


class Outcomes:
    """A sink that remembers; each number must be told about once."""

    def __init__(self) -> None:
        self.acked_order: list[int] = []
        self.failures: dict[int, errors.ProtocolError] = {}
        self.rooms = 0
        self._told: set[int] = set()
        self._changed = asyncio.Event()

    def acked(self, number: int) -> None:
        self._once(number)
        self.acked_order.append(number)

    def failed(self, number: int, error: errors.ProtocolError) -> None:
        self._once(number)
        self.failures[number] = error

    def room(self) -> None:
        self.rooms += 1
        self._changed.set()

    @property
    def count(self) -> int:
        return len(self.acked_order) + len(self.failures)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def all_of(self, count: int) -> None:
        await self.until(lambda: self.count == count)

    def _once(self, number: int) -> None:
        assert number not in self._told
        self._told.add(number)
        self._changed.set()


class Writer:
    """A ledger's frames, one after the other, into whatever lane it has."""

    def __init__(self, ledger: int, first: int = 0) -> None:
        self.ledger_id = LedgerId(ledger)
        self.next = first
        self._sealer = entries.Sealer(self.ledger_id, Digest.CRC32C, PASSWORD)

    def opening(self, key: digests.MasterKey = KEY) -> openings.FragmentOpening:
        return openings.FragmentOpening(
            ledger_id=self.ledger_id,
            master_key=key,
            quorums=Quorums(ensemble=3, write=3, ack=2, ack_zones=2),
            digest=Digest.CRC32C,
            first_entry_id=EntryId(self.next),
            ensemble=(BOOKIE, BookieId("rack-b-0"), BookieId("rack-c-0")),
        )

    def frame(
        self,
        *payloads: bytes,
        confirmed: int | None = None,
        flags: Flags = Flags.PLAIN,
    ) -> Frame:
        first = EntryId(self.next)
        self.next += len(payloads)
        known = first - 1 if confirmed is None else confirmed
        return frames.seal(self._sealer, first, EntryId(known), 0, payloads, flags)

    def lac(self, confirmed: int) -> bytes:
        return self._sealer.seal_lac(EntryId(confirmed))


async def opened(
    link: BookieLink, ledger: int, first: int = 0
) -> tuple[Writer, AppendLane, Outcomes]:
    """Open a fragment, and give all that writing there needs."""
    writer, outcomes = Writer(ledger, first), Outcomes()
    return writer, await link.open_fragment(writer.opening(), outcomes), outcomes


async def acked_in_time(writer: Writer, lane: AppendLane, outcomes: Outcomes) -> int:
    """Append, when all before has its outcome, until an ack comes in time; give its number.

    A busy machine may take longer than a short deadline, more than once.
    """
    while True:
        number = lane.append(writer.frame(b"in time"))
        await outcomes.all_of(number + 1)
        if number in outcomes.acked_order:
            return number


async def patiently(
    link: BookieLink, ledger: int, first: int = 0
) -> tuple[Writer, AppendLane, Outcomes]:
    """Open a fragment as a caller does that has no other bookie: try until it is there.

    A busy machine may take longer than a short deadline, more than once.
    """
    while True:
        try:
            return await opened(link, ledger, first)
        except (errors.NotConnected, errors.Timeout):
            await asyncio.sleep(0.01)


def read(ledger: int, first: int, last: int, bytes_max: int = 1 << 20) -> service.ReadRequest:
    """Ask for a range."""
    return service.ReadRequest(
        ledger_id=LedgerId(ledger),
        first_entry_id=EntryId(first),
        last_entry_id=EntryId(last),
        bytes_max=bytes_max,
    )
