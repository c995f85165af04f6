"""What a smaller number of bookies waits for, and what refuses it, with numbers."""

from collections.abc import Awaitable, Callable

import pytest

from tests.operator.roll import rolling_world, test_gates
from tests.operator.roll.rolling_world import cluster_of
from tests.operator.scaling.removing_world import KEPT, RemovingWorld, built, scaled
from tests.operator.worlds import World
from zonekeeper.metadata.formats import service_info
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from zonekeeper.metadata.formats.service_info import PublishedRoom, ServiceInfo
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId


async def write_closed(world: RemovingWorld, number: int, mebibytes: int) -> None:
    """Let a closed ledger have so much data on the bookies of one ordinal."""
    await write_closed_on(world, mebibytes, *(f"log-{zone}-{number}" for zone in "abc"))


async def write_closed_on(world: RemovingWorld, mebibytes: int, *names: str) -> None:
    """Let a closed ledger have so much data on each of these bookies."""
    ensemble = tuple(map(BookieId, names))
    ledger = LedgerMetadata(
        ensemble_size=len(ensemble),
        write_quorum=len(ensemble),
        ack_quorum=len(ensemble) // 2 + 1,
        fragments=(Fragment(EntryId(0), ensemble),),
        digest=Digest.CRC32C,
        password=b"",
        create_token=41,
        state=LedgerState.CLOSED,
        last_entry=EntryId(9),
        length=mebibytes << 20,
    )
    async with cluster_of(world) as cluster:
        await ledgers.create(cluster, ledger)


#: Two volumes of 1024 MiB with 614 MiB on each, and 102.4 MiB to stay free, take 615.2 MiB more.
@pytest.mark.parametrize(("mebibytes", "fits"), [(614, True), (615, False)])
async def test_without_room_on_the_volumes_that_are_left_no_bookie_goes_and_the_numbers_are_told(
    mebibytes: int, *, fits: bool
) -> None:
    world = RemovingWorld()
    await world.settle()
    for number in range(3):
        await write_closed(world, number, mebibytes)

    await world.change(bookiesPerZone=2)
    await world.settle()

    assert (await world.cookies() == KEPT) is fits
    if not fits:
        assert await scaled(world) == ("False", "RemovalWaits")
        said = await world.message("Scaled")
        assert f"no room in zone a: log-a-2 holds {mebibytes << 20} bytes" in said
        free = 2 * ((1024 - mebibytes << 20) - (1 << 30) // 10)
        assert f"the 2 other bookies of the zone have {free} bytes free" in said


@pytest.mark.parametrize(("disk", "fits"), [(None, True), ("0123456789abcdef", False)])
async def test_the_room_that_bookies_publish_counts_and_a_disk_that_they_share_counts_once(
    disk: str | None, *, fits: bool
) -> None:
    world = RemovingWorld()
    await world.settle()
    await write_closed(world, 2, 1_000)
    for name in sorted(world.registered):
        await publish(
            world, name, PublishedRoom(free_bytes=700 << 20, total_bytes=1 << 40, disk=disk)
        )

    await world.change(bookiesPerZone=2)
    await world.settle()

    assert (await world.cookies() == KEPT) is fits
    if not fits:
        assert "have 0 bytes free" in await world.message("Scaled")


async def publish(world: RemovingWorld, name: str, room: PublishedRoom) -> None:
    """Let a bookie say its room."""
    async with cluster_of(world) as cluster:
        path = cluster.root.writable(BookieId(name))
        info = ServiceInfo(endpoints=()).with_room(room)
        await cluster.store.put(path, service_info.render(info), version=0)


async def test_a_ledger_that_would_be_at_risk_without_the_bookie_holds_its_order() -> None:
    world = await built()
    await rolling_world.write_ledger(world, 77, "log-a-1", "log-a-2", ack=1)
    await world.change(bookiesPerZone=2)
    await world.settle()

    assert await scaled(world) == ("False", "RemovalWaits")
    assert "ledgerAtRisk: 1 ledgers, the first is 77" in await world.message("Scaled")
    assert await world.orders() == {}


@pytest.mark.parametrize(
    ("begin", "end", "gate"),
    [
        (test_gates.mark, test_gates.unmark, "underReplicated"),
        (test_gates.hold_b, test_gates.release_b, "zoneHeld"),
        (test_gates.declare, test_gates.lift, "inMaintenance"),
        (test_gates.lose_data, test_gates.fill_in, "bookieFillsIn"),
    ],
)
async def test_a_gate_of_the_roll_holds_the_next_order_until_it_ends(
    begin: Callable[[World], Awaitable[None]],
    end: Callable[[World], Awaitable[None]],
    gate: str,
) -> None:
    world = await built()
    await begin(world)
    await world.change(bookiesPerZone=2)
    await world.settle()

    assert await scaled(world) == ("False", "RemovalWaits")
    assert f"{gate}: " in await world.message("Scaled")
    assert await world.orders() == {}
    await end(world)
    await world.settle()
    assert await world.cookies() == KEPT


async def test_too_few_bookies_for_new_ledgers_without_a_zone_are_refused_with_the_number() -> None:
    world = await built()
    await world.change(bookiesPerZone=1)
    await world.settle()

    assert (await world.conditions())["Legal"] == ("False", "Blocked")
    said = await world.message("Legal")
    assert "while a zone is lost, no ledger can be created" in said
    assert "set it to 2 or more" in said
    assert await world.orders() == {}
    assert await world.scaling() == {}
