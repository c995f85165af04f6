"""Zone histories by number: any number of them, each the same whenever its number is played.

    python -m tests.placement.zone_history_run --histories 10000 [--first 0]

Each is checked by the observer of ``zone_histories``. What they went through is printed: a run that
never suspended a release, or never saw a zone flap, has shown nothing about either.
"""

import argparse
import random
import sys
from collections.abc import Callable
from dataclasses import fields

from tests.placement import zone_histories
from tests.placement.zone_histories import JUMP, Act, Seen, Watched
from tests.placement.zone_world import MINUTE, SECOND, A, B, C, members
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.policy.rules import OnZoneLoss, RepairRules, RepairScope, Resume

ACTS_MIN, ACTS_MAX = 12, 40


class Unkept(AssertionError):
    """A history that broke a promise: its number, and what happened until then."""


def rules(chance: random.Random) -> RepairRules:
    """Draw the owner's rules."""
    return RepairRules(
        scope=chance.choice(list(RepairScope)),
        resume=chance.choice(list(Resume)),
        on_zone_loss=chance.choice(list(OnZoneLoss)),
        after_ms=3 * MINUTE,
        remind_every_ms=MINUTE,
        bookie_recovery_delay_ms=40 * SECOND,
    )


def drawn(chance: random.Random) -> tuple[str, Act]:
    """Draw the next thing that happens, with its name."""
    zone: ZoneName = chance.choice([A, A, B, C])
    gate: ZoneName | None = chance.choice([A, B, C, None, None])
    some = members(zone, *chance.sample(range(4), chance.randint(1, 4)))
    all_of = members(zone, *range(4))
    short_ms = chance.randint(1, 12) * 10 * SECOND
    back, times, unit = chance.randint(0, 4), chance.randint(1, 6), chance.randint(0, 2)
    blink_ms = chance.randint(1, 19) * SECOND
    jump_ms = chance.choice([JUMP, -JUMP])

    def declared(world: Watched) -> None:
        world.declare(zone, unit, short_ms, token=f"m-{zone}-{unit}-{world.now_ms}")

    def blinks(world: Watched) -> None:
        """A zone is away for less than its debounce."""
        world.lose(all_of)
        world.wait(blink_ms)
        world.come(all_of)

    acts: list[tuple[int, str, Act]] = [
        (4, f"wait {short_ms}", lambda world: world.wait(short_ms)),
        (4, "wait long", lambda world: world.wait(2 * MINUTE)),
        (4, f"lose {zone}", lambda world: world.lose(all_of)),
        (3, f"back {zone}", lambda world: world.come(all_of)),
        (2, f"lose {some}", lambda world: world.lose(some)),
        (2, f"back {some}", lambda world: world.come(some)),
        (2, f"blink {zone} {blink_ms}", blinks),
        (2, f"flap {zone} {back} {times}", lambda world: world.flaps(zone, back, times)),
        (1, "new watch", Watched.taken_over),
        (1, f"jump {jump_ms}", lambda world: world.jumped(jump_ms)),
        (1, f"unwatched {short_ms}", lambda world: world.unwatched(short_ms)),
        (4, f"release {gate}", lambda world: world.person_releases(gate)),
        (1, f"hold {gate}", lambda world: world.person_holds(gate)),
        (2, "enable", Watched.person_enables),
        (1, f"maintenance {zone} {unit} {short_ms}", declared),
    ]
    ((_, name, act),) = chance.choices(acts, [weight for weight, _, _ in acts])
    return name, act


def play(number: int) -> Seen:
    """Play one history; raises ``Unkept`` where it breaks a promise."""
    chance = random.Random(f"zone history {number}")
    happened: list[str] = []
    try:
        world = zone_histories.begun(rules(chance), cold=chance.random() < 0.3)
        if chance.random() < 0.5:
            world.repair_ms = None  # nothing is written off: a freeze lasts
        for _ in range(chance.randint(ACTS_MIN, ACTS_MAX)):
            name, act = drawn(chance)
            happened.append(name)
            act(world)
    except AssertionError as error:
        raise Unkept(f"history {number}: {error}\n  after {', '.join(happened)}") from error
    return world.seen


def play_all(numbers: range, progress: Callable[[int], None] = lambda done: None) -> Seen:
    """Play histories, and give the sum of what they went through."""
    total = Seen()
    for done, number in enumerate(numbers, 1):
        seen = play(number)
        for each in fields(Seen):
            setattr(total, each.name, getattr(total, each.name) + getattr(seen, each.name))
        progress(done)
    return total


def main() -> None:
    """Play as many as asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    total = play_all(range(given.first, given.first + given.histories))
    sys.stdout.write(f"{given.histories} histories, no promise broken\n{total}\n")


if __name__ == "__main__":
    main()
