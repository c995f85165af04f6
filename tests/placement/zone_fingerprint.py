"""Plays one long history and prints all that came of it: run it under different hash seeds."""

import json
import random
import sys

from tests.placement.zone_world import MINUTE, SECOND, A, B, C, members, policy, settled
from zonekeeper.placement.policy.rules import RepairRules, RepairScope
from zonekeeper.placement.zones import zone_record_data
from zonekeeper.placement.zones.zone_records import Record


def fingerprint() -> str:
    """Give records, effects and publications after a fixed history."""
    chance = random.Random(7)
    world = settled(policy(repair=RepairRules(scope=RepairScope.CLUSTER)))
    for number in range(150):
        some = members(chance.choice([A, B, C]), *chance.sample(range(10), chance.randint(1, 9)))
        chance.choice([world.lose, world.come])(some)
        if number % 10 == 0:
            world.declare(chance.choice([A, B, C]), number // 10 % 3, MINUTE, token=f"m-{number}")
        world.wait(chance.randint(1, 9) * 20 * SECOND, every_ms=20 * SECOND)
    records: list[Record] = [*world.health.zones.values(), world.cluster]
    plain = [zone_record_data.plain(record) for record in records]
    effects = [f"{at_ms} {effect}" for at_ms, effect in world.happened]
    return json.dumps([plain, effects, [*world.published.items()]], indent=1)


if __name__ == "__main__":
    sys.stdout.write(fingerprint())
