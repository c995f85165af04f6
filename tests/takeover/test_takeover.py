"""A writer is killed, or stopped for a while, and two others take its ledger at the same time.

Five bookies as processes on a real ZooKeeper. Whatever the moment: nothing that the writer said was
acknowledged is lost, a writer that wakes up behind the takeover gets no more acknowledgements, and
every reader (both takers, and a tail that has followed all along) reads the same bytes. In some
rounds a bookie is frozen while the ledger is taken. S09 and S11 of docs/scenarios.md, with
processes.
"""

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support import zookeeper
from tests.support.bookie_processes import BookieProcesses, bookie_processes, make_cluster
from tests.support.python_process import PythonProcess, processes
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules, Policy

pytestmark = pytest.mark.processes

ZONES = {
    BookieId("bk-a-0"): ZoneName("a"),
    BookieId("bk-a-1"): ZoneName("a"),
    BookieId("bk-b-0"): ZoneName("b"),
    BookieId("bk-b-1"): ZoneName("b"),
    BookieId("bk-c-0"): ZoneName("c"),
}
ROUNDS_A_GAME = 10
GAMES = 4
GAMES_LONG = 20
#: The writer is stopped after so many of its lines.
LINES_MAX = 25
#: What a writer ends with whose ledger was taken: a bookie tells it, or the metadata.
TAKEN = ("Fenced", "ClosedByOther")


@pytest.fixture(scope="module")
def bookies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BookieProcesses]:
    with zookeeper.single() as ensemble:
        address = f"zk://{ensemble.addresses}/takeover"
        policy = Policy(
            quorums=Quorums(ensemble=3, write=3, ack=2, ack_zones=2),
            placement=PlacementRules(zones=tuple(sorted(set(ZONES.values())))),
        )
        asyncio.run(make_cluster(address, policy))
        folder = tmp_path_factory.mktemp("takeover")
        with bookie_processes(address, folder, ZONES) as started:
            started.start()
            yield started
            assert started.ended() == []


@dataclass(slots=True)
class Promised:
    """What a writer has said so far."""

    ledger_id: int = -1
    acked: int = -1
    ended: str | None = None

    def hear(self, line: str) -> None:
        word, value = line.split()
        match word:
            case "ledger":
                self.ledger_id = int(value)
            case "acked":
                assert int(value) >= self.acked, "acknowledgements go forward"
                self.acked = int(value)
            case "ended":
                self.ended = value
            case _:
                raise AssertionError(f"the writer said {line!r}")


class Game:
    """The players of some rounds; a writer that was killed is replaced."""

    def __init__(self, bookies: BookieProcesses, started: list[PythonProcess], seed: int) -> None:
        self._bookies = bookies
        self._started = started
        self._chance = random.Random(seed)
        self.takers = [self.player() for _ in range(2)]
        self.follower = self.player()
        self.writer = self.player()

    def player(self) -> PythonProcess:
        player = PythonProcess("tests.takeover.actor", self._bookies.address)
        self._started.append(player)
        assert player.line() == "ready"
        return player

    def round(self, *, killed: bool) -> tuple[Promised, int]:
        """Play one; give what was promised, and the last entry that all have read."""
        chance, promised = self._chance, Promised()
        self.writer.say(f"write {chance.randrange(1 << 30)}")
        promised.hear(self.writer.line())
        self.follower.say(f"tail {promised.ledger_id}")
        for _ in range(chance.randrange(LINES_MAX)):
            promised.hear(self.writer.line())
        frozen = chance.choice(sorted(ZONES)) if chance.random() < 0.25 else None
        if frozen is not None:
            self._bookies.freeze(frozen)
        try:
            if killed:
                self.writer.kill()
            else:
                self.writer.stop()
            for taker in self.takers:
                taker.say(f"take {promised.ledger_id}")
            read = {taker.line() for taker in self.takers}
        finally:
            if frozen is not None:
                self._bookies.thaw(frozen)
        if killed:
            for line in self.writer.rest():
                promised.hear(line)
            self.writer = self.player()
        else:
            self.writer.go_on()
            while promised.ended is None:
                promised.hear(self.writer.line())
        read.add(self.follower.line())
        assert len(read) == 1, f"readers disagree: {read}"
        word, ledger_id, last, _ = read.pop().split()
        assert (word, int(ledger_id)) == ("read", promised.ledger_id)
        return promised, int(last)


def play(bookies: BookieProcesses, seed: int) -> None:
    chance, acked = random.Random(seed), 0
    with processes() as started:
        game = Game(bookies, started, seed)
        for number in range(ROUNDS_A_GAME):
            killed = chance.random() < 0.5
            promised, last = game.round(killed=killed)
            where = f"seed {seed}, round {number}, {'killed' if killed else 'stopped'}"
            assert promised.acked <= last, f"{where}: acknowledged entries are lost: {promised}"
            assert killed or promised.ended in TAKEN, f"{where}: {promised}"
            acked += promised.acked + 1
    assert acked > ROUNDS_A_GAME


@pytest.mark.parametrize("seed", range(GAMES))
def test_takeovers_lose_nothing_and_all_read_the_same(bookies: BookieProcesses, seed: int) -> None:
    play(bookies, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(GAMES, GAMES_LONG))
def test_more_takeovers(bookies: BookieProcesses, seed: int) -> None:
    play(bookies, seed)
