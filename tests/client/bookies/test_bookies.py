"""Which bookies new ensembles use: zones that are down, suspects, and links that move."""

import asyncio
from dataclasses import dataclass, field

from tests.client.lab import Lab, played
from zonekeeper.client.base.counters import ClientCounters
from zonekeeper.client.bookies.link_pool import LOOK_UP_EVERY_MS, LinkPool
from zonekeeper.metadata.cluster import zone_store
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.zones.gate import Gate, Permission, Person
from zonekeeper.placement.zones.observation import Observation, ZoneObservation
from zonekeeper.placement.zones.zone_counts import Count
from zonekeeper.placement.zones.zone_records import ZoneRecord
from zonekeeper.wire.contract.links import OwnedLink
from zonekeeper.wire.formats import errors
from zonekeeper.wire.twin import twin


@played()
async def test_a_zone_that_is_down_gets_no_new_ensembles_while_others_suffice(lab: Lab) -> None:
    record = ZoneRecord(
        zone=ZoneName("b"),
        evaluation=1,
        evidence=Count(total=3),
        observed=ZoneObservation(state=Observation.DOWN, reason="a test says so", since_wall_ms=0),
        gate=Gate(
            permission=Permission.HELD,
            set_by="a test",
            reason="a test",
            since_wall_ms=0,
            held_by=Person(name="a test", reason="a test"),
        ),
    )
    async with lab.client() as client:
        await zone_store.change_zone(await lab.cluster(), ZoneName("b"), lambda _: record)
        await asyncio.sleep(1)
        for _ in range(20):
            writer = await client.create()
            assert not any("-b-" in who for who in writer.ensemble)
            assert any("-c-" in who for who in writer.ensemble)
            writer.halt()


@played()
async def test_a_bookie_that_was_only_out_of_reach_is_avoided_for_less_long(lab: Lab) -> None:
    async with lab.client() as client:
        out_of_reach, bad = BookieId("bk-a-0"), BookieId("bk-b-0")
        client.bookies.suspect(out_of_reach, errors.ConnectionLost("reset"))
        client.bookies.suspect(bad, errors.IoFailed("disk"))
        assert client.bookies.suspects == {out_of_reach, bad}
        await asyncio.sleep(11)
        assert client.bookies.suspects == {bad}
        await asyncio.sleep(30 * 60)
        assert not client.bookies.suspects


@dataclass
class _Moving:
    """A link factory whose bookie changes its address."""

    network: twin.Network
    address: str | None = "here"
    made: list[str] = field(default_factory=list)

    async def find(self, bookie_id: BookieId) -> str | None:
        return self.address

    def make(self, bookie_id: BookieId, address: str) -> OwnedLink:
        self.made.append(address)
        return self.network.link(address, bookie_id)


@played()
async def test_a_bookie_is_reached_where_it_registers_now(lab: Lab) -> None:
    moving, counters = _Moving(lab.network), ClientCounters()
    pool, who = LinkPool(moving, counters), BookieId("bk-a-0")
    first = await pool.current(who)
    assert await pool.current(who) is first
    moving.address = "there"
    assert not await pool.moved(who, first), "it was looked up just now"
    await asyncio.sleep(LOOK_UP_EVERY_MS / 1_000)
    assert await pool.moved(who, first)
    second = await pool.current(who)
    assert second is not first
    assert await pool.moved(who, first), "somebody found that out"
    moving.address = None
    await asyncio.sleep(LOOK_UP_EVERY_MS / 1_000)
    assert not await pool.moved(who, second), "a bookie that is not registered has not moved"
    assert (moving.made, counters.links_moved) == (["here", "there"], 1)
    await pool.close()


@played()
async def test_of_questions_that_meet_a_moved_bookie_at_the_same_time_each_is_answered(
    lab: Lab,
) -> None:
    moving, counters = _Moving(lab.network), ClientCounters()
    pool, who = LinkPool(moving, counters), BookieId("bk-a-0")
    await (await pool.link(who)).info()
    await asyncio.sleep(LOOK_UP_EVERY_MS / 1_000)
    moving.address = "there"
    lab.network.disconnect("here", who)
    lab.network.cut("here", who)
    link = await pool.link(who)
    asked = (link.info() for _ in range(4))
    assert [info.bookie_id for info in await asyncio.gather(*asked)] == [who] * 4
    assert counters.links_moved == 1
    await pool.close()


@played(bookies_in={"a": 1, "b": 2, "c": 1})
async def test_a_zone_is_said_to_be_down_by_what_the_client_knows_itself(lab: Lab) -> None:
    async with lab.client() as client:
        bookies = client.bookies
        assert bookies.said_of_zones() == "no zone is known to be down"
        bookies.suspect(BookieId("bk-a-0"), errors.ConnectionLost("its registration outlives it"))
        bookies.suspect(BookieId("bk-b-0"), errors.ConnectionLost("the zone has another one"))
        assert bookies.said_of_zones() == (
            "down as far as is known: zone a (0 of 1 bookies available)"
        )
        await lab.crash_zone("c")
        await asyncio.sleep(30)
        bookies.suspect(BookieId("bk-a-0"), errors.ConnectionLost("still away"))
        assert bookies.said_of_zones() == (
            "down as far as is known: zones a (0 of 1 bookies available), "
            "c (0 of 1 bookies available)"
        )
