"""A bookie that offers the socket lane, in virtual time: two networks lead to it, and one link.

One network stands for the lane and one for gRPC, so each can be taken away, cut or given back by
itself.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from tests.support import playing, virtual_time
from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from tests.wire.link.worlds import BOOKIE, opened, read
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.contract.links import LinkSettings
from zonekeeper.wire.formats import errors, versions
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.host import methods
from zonekeeper.wire.host.host_limits import HostLimits
from zonekeeper.wire.host.serving import Host
from zonekeeper.wire.lanes.back_off import BackOff
from zonekeeper.wire.lanes.way_choice import WayChoice
from zonekeeper.wire.link.offered_transport import OfferedLane, OfferedTransport, Offers
from zonekeeper.wire.link.stream_link import StreamLink
from zonekeeper.wire.twin import twin

HERE: Final = Address("lane", 1)
THERE: Final = Address("lane", 2)
#: A cut is noticed by nothing but the limits of this link.
CALM: Final = twin.Weather(delay_min_ms=1, delay_max_ms=2, keep_alive_ms=3_600_000)
SETTINGS: Final = LinkSettings(connect_timeout_ms=2_000)


class TwinLane(twin._TwinTransport):
    """A network in memory as a ``LaneTransport``."""

    async def reach(self) -> None:
        try:
            await self.call(methods.INFO, None, 3_600_000)
        except errors.ConnectionLost as lost:
            raise errors.NotConnected(lost.detail) from lost


class OfferedWorld:
    """One bookie, on two networks, and a link."""

    def __init__(self, tasks: asyncio.TaskGroup, *, is_offered: bool = True) -> None:
        self._tasks = tasks
        self.disk = Disk()
        self.bookie = ReferenceBookie(BOOKIE, self.disk)
        self.lane, self.grpc = (
            twin.Network(tasks=tasks, chance=random.Random(seed), weather=CALM) for seed in (1, 2)
        )
        self.offered: OfferedLane | None = OfferedLane(
            address=HERE if is_offered else None, boot_epoch=self.bookie.boot_epoch
        )
        self.looks = 0
        self.connected: list[Address] = []
        self.lanes: list[TwinLane] = []
        self.told: list[str] = []
        for network in (self.lane, self.grpc):
            self.serve(network)
        assert self.offered is not None
        self.choice = WayChoice(
            is_offered=is_offered,
            boot_epoch=self.offered.boot_epoch,
            back_off=BackOff(first_ms=1_000, max_ms=60_000, chance=random.Random(1)),
        )
        self.ways = OfferedTransport(
            twin._TwinTransport(self.grpc, "client", BOOKIE, versions.SPOKEN),
            Offers(first=self.offered, look=self._look, connect=self._connect),
            self.choice,
            watcher=self,
            tasks=tasks,
            connect_timeout_ms=SETTINGS.connect_timeout_ms,
        )
        self.link = StreamLink(
            BOOKIE,
            self.ways,
            tasks=tasks,
            chance=random.Random(1),
            settings=SETTINGS,
            watcher=self.ways,
        )
        self.ways.when_reached(self.link.renew)

    def serve(self, network: twin.Network) -> None:
        network.put_up(BOOKIE, Host(self.bookie, HostLimits()))

    async def restart(self, *, with_lane: bool = True) -> None:
        """Let the bookie start again; its registration is as before, and its clients have heard."""
        for network in (self.lane, self.grpc):
            if network.boot(BOOKIE) is not None:
                network.take_down(BOOKIE)
        self.bookie = ReferenceBookie(BOOKIE, self.disk)
        self.serve(self.grpc)
        if with_lane:
            self.serve(self.lane)
        await asyncio.sleep(0.01)

    def register(self, address: Address | None) -> None:
        self.offered = OfferedLane(address=address, boot_epoch=self.bookie.boot_epoch)

    async def _look(self) -> OfferedLane | None:
        self.looks += 1
        return self.offered

    def _connect(self, address: Address) -> TwinLane:
        self.connected.append(address)
        self.lanes.append(TwinLane(self.lane, "client", BOOKIE, versions.SPOKEN))
        return self.lanes[-1]

    def blocked(self, why: str) -> None:
        self.told.append(f"blocked: {why}")

    def opened(self) -> None:
        self.told.append("opened")

    def on_lane(self) -> int:
        """How many streams and calls are under way on the lane."""
        return sum(map(len, self.lane._live.values()))

    def on_grpc(self) -> int:
        return sum(map(len, self.grpc._live.values()))

    def refuse(self) -> None:
        """Let the lane's port refuse connections; those that are there end."""
        self.lane.take_down(BOOKIE)

    def swallow(self) -> None:
        """Let the lane's port drop everything."""
        self.lane.cut("client", BOOKIE)


def play(scenario: Callable[[OfferedWorld], Awaitable[None]], *, is_offered: bool = True) -> None:
    async def main() -> None:
        async with asyncio.timeout(3_600), asyncio.TaskGroup() as tasks:
            world = OfferedWorld(tasks, is_offered=is_offered)
            try:
                await scenario(world)
            finally:
                await world.link.close()
        assert world.on_lane() == world.on_grpc() == 0

    virtual_time.run(main())


played = playing.by(play)
BLOCKS: Final = pytest.mark.parametrize("block", [OfferedWorld.refuse, OfferedWorld.swallow])


async def do_all(world: OfferedWorld, ledger: int = 7) -> None:
    """Do what has a stream for appends, one for reads, a call and a subscription."""
    writer, lane, outcomes = await opened(world.link, ledger)
    number = lane.append(writer.frame(b"x", confirmed=-1))
    await outcomes.all_of(number + 1)
    assert outcomes.failures == {}
    assert (await world.link.read(read(ledger, 0, 0))).frames
    assert (await world.link.info()).boot_epoch == world.bookie.boot_epoch
    tail = service.TailRequest(
        ledger_id=LedgerId(ledger), first_entry_id=EntryId(0), bytes_max=1 << 20, quiet_ms=10
    )
    updates = world.link.tail(tail)
    assert (await anext(updates)).last_add_confirmed >= -1
    await updates.aclose()
    lane.close()
