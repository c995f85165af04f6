"""More outages than one story tells: drawn by a seed, one after the other, on one cluster."""

import random

import pytest

from tests.zones import copies
from tests.zones.world import LONG_S, Ground, World, world
from zonekeeper.placement.zones.gate import Permission
from zonekeeper.placement.zones.observation import Observation

pytestmark = [pytest.mark.processes, pytest.mark.long]

ROUNDS = 6
SEEDS = 10


async def outage(made: World, chance: random.Random) -> None:
    """Take a zone away, let something else happen meanwhile, and give it back."""
    zone, killed = chance.choice(sorted(set(made.bookies.zones.values()))), chance.random() < 0.5
    if killed:
        made.kill_zone(zone)
    else:
        made.freeze_zone(zone)
    state = chance.choice((Observation.SUSPECT, Observation.DOWN))
    await made.zone_is(zone, state, permission=Permission.HELD)
    match chance.randrange(4):
        case 0:
            await made.kill_leaders()
        case 1:
            made.freeze_autorecovery()
            await made.lasts(chance.random() * LONG_S)
            made.thaw_autorecovery()
        case 2:
            made.freeze_store()
            await made.lasts(chance.random() * LONG_S)
            made.zookeeper.go_on()
        case _:
            await made.evaluations()
    if killed:
        await made.start(made.members(zone))
    else:
        made.thaw_zone(zone)
    if chance.random() < 0.5:
        await made.kill_leaders()
    await made.calm()


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_outages_of_every_kind_move_nothing(ground: Ground, seed: int) -> None:
    chance = random.Random(seed)
    async with world(ground) as made:
        for _ in range(ROUNDS):
            held = await copies.every(made.client.cluster)
            await outage(made, chance)
            await made.has_moved(0)
            assert held <= await copies.every(made.client.cluster)
