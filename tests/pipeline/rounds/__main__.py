"""``python -m tests.pipeline.rounds --rounds 200 --seed 1``: rounds of faults, as many as wanted.

Every fault comes up once before one comes again, in an order that the seed draws. The exit code is
0 only if nothing was lost, and nothing came twice, in any round.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.pipeline.rounds import queries
from tests.pipeline.rounds.game import FAULTS, RoundFault, RoundsDriver, SparkGame
from tests.support import zookeeper
from tests.support.bookie_processes import bookie_processes, make_cluster
from zonekeeper.log.api import blocking
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules, Policy

ZONES = {BookieId(f"bk-{zone}-{at}"): ZoneName(zone) for zone in "abc" for at in range(2)}
#: A game ends behind so many rounds: checks read all that it has.
ROUNDS_A_GAME = 12


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pipeline.rounds", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    given = parser.parse_args()
    return play(given.rounds, given.seed, time.perf_counter() + 60 * given.minutes)


def play(rounds: int, seed: int, until_s: float) -> int:
    """Play until all rounds are done, the time is over, or one fails."""
    chance = random.Random(seed)
    policy = Policy(
        quorums=Quorums(ensemble=3, write=3, ack=2, ack_zones=2),
        placement=PlacementRules(zones=tuple(sorted(set(ZONES.values())))),
    )
    played: Counter[str] = Counter()
    driver = RoundsDriver()
    with (
        tempfile.TemporaryDirectory(prefix="rounds-") as name,
        zookeeper.single() as ensemble,
    ):
        folder, address = Path(name), f"zk://{ensemble.addresses}/rounds"
        asyncio.run(make_cluster(address, policy))
        with (
            bookie_processes(address, folder / "bookies", ZONES) as bookies,
            blocking.connect(address) as logs,
        ):
            bookies.start()
            try:
                game, faults = None, list[RoundFault]()
                for number in range(rounds):
                    if time.perf_counter() > until_s:
                        break
                    if number % ROUNDS_A_GAME == 0:
                        game = SparkGame(
                            zookeeper=ensemble,
                            bookies=bookies,
                            logs=logs,
                            driver=driver,
                            folder=folder / str(number),
                            name=f"rounds/{number}",
                            query=list(queries.QUERIES)[number // ROUNDS_A_GAME % 3],
                            chance=chance,
                        )
                    if not faults:
                        faults = chance.sample(FAULTS, len(FAULTS))
                    assert game is not None
                    fault = faults.pop()
                    say(f"round {number + 1}, {fault} …")
                    say(f"round {number + 1}, {game.round(fault)}")
                    played[fault.outage or fault.kind] += 1
            finally:
                driver.end()
    say(
        f"seed {seed}: {played.total()} rounds, 0 lost, 0 twice, sequences dense; "
        f"{driver.starts} drivers; {', '.join(f'{n} {kind}' for kind, n in played.items())}"
    )
    return 0


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
