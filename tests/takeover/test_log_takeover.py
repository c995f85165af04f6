"""Four contenders for one log, in processes of their own, on a real ZooKeeper and real bookies.

In each round a writer is killed or stopped: while it writes, or at a named point of its opening or
of a rotation. Then others open the log at the same time; in some rounds a bookie is frozen
meanwhile. A writer that was stopped wakes up behind that. Whatever the moment: exactly one writer
has the log in the end, and the record names it; each acknowledged message is in the log once, at
the sequence that its writer was given; sequences are dense; and all readers, a tail that has
followed all along among them, read the same bytes.
"""

import asyncio
import queue
import random
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.support import zookeeper
from tests.support.bookie_processes import BookieProcesses, bookie_processes, make_cluster
from tests.support.python_process import PythonProcess, processes
from tests.takeover.log_actor import ARMED_ACKS, POINTS
from zonekeeper.log import LogRules, connect
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
CONTENDERS = 4
ROUNDS_A_GAME = 10
GAMES = 4
GAMES_LONG = 20
#: Rotations are many.
RULES = LogRules(rotate_messages=12)
#: After a round the new writer has had so many acknowledgements.
ACKS_A_ROUND = 5
#: A point of a rotation is passed more often than one of an opening.
PASSES_MAX = 4


@pytest.fixture(scope="module")
def bookies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BookieProcesses]:
    with zookeeper.single() as ensemble:
        address = f"zk://{ensemble.addresses}/logs"
        policy = Policy(
            quorums=Quorums(ensemble=3, write=3, ack=2, ack_zones=2),
            placement=PlacementRules(zones=tuple(sorted(set(ZONES.values())))),
        )
        asyncio.run(make_cluster(address, policy))
        folder = tmp_path_factory.mktemp("logs")
        with bookie_processes(address, folder, ZONES) as started:
            started.start()
            yield started
            assert started.ended() == []


@dataclass(slots=True, kw_only=True)
class Writing:
    """What one writer has said so far."""

    seed: int
    #: The sequence of its first message; None: it has not opened the log.
    first: int | None = None
    #: Messages ``first <= sequence < end`` are acknowledged to it.
    end: int = 0
    acks: int = 0
    #: The point at which it sent itself a signal.
    at: str | None = None
    #: Why it ended; a writer that was killed ends without a word.
    ended: str | None = None

    def hear(self, word: str, value: str) -> None:
        match word:
            case "opened":
                self.first = self.end = int(value)
            case "acked":
                assert self.ended is None
                assert int(value) > self.end, "acknowledgements go forward"
                self.end, self.acks = int(value), self.acks + 1
            case "at":
                self.at = value
            case "ended":
                self.ended = value
            case _:
                raise AssertionError(f"a writer said {word} {value}")


class Player:
    """A process; a thread takes what it says."""

    def __init__(self, process: PythonProcess, heard: "queue.Queue[tuple[Player, str]]") -> None:
        self.process = process
        #: Its present writer.
        self.writing: Writing | None = None
        self.stopped = False
        self._heard = heard
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process._process.stdout is not None
        for line in self.process._process.stdout:
            if line.endswith("\n") and line != "ready\n":
                self._heard.put((self, line.strip()))
        self._heard.put((self, "gone"))


@dataclass(slots=True)
class Game:
    """The players of some rounds on one log; a process that was killed is replaced."""

    bookies: BookieProcesses
    started: list[PythonProcess]
    name: str
    chance: random.Random
    #: Every writer that there was, by its seed.
    writings: dict[int, Writing] = field(default_factory=dict)
    players: list[Player] = field(default_factory=list)
    heard: "queue.Queue[tuple[Player, str]]" = field(default_factory=queue.Queue)
    #: The points that rounds reached.
    reached: list[str] = field(default_factory=list)
    #: It takes the place of the next process that is killed: a start takes its time.
    spare: Player = field(init=False)

    def __post_init__(self) -> None:
        self.players = [self.player() for _ in range(CONTENDERS)]
        self.spare = self.player()

    def player(self) -> Player:
        process = PythonProcess("tests.takeover.log_actor", self.bookies.address, self.name)
        self.started.append(process)
        return Player(process, self.heard)

    def write(self, player: Player, *point: object) -> Writing:
        """Let a process open the log."""
        writing = Writing(seed=len(self.writings) + 1)
        self.writings[writing.seed] = player.writing = writing
        player.process.say(" ".join(map(str, ("write", writing.seed, *point))))
        return writing

    def hear(self) -> None:
        """Take the next line of any process."""
        player, line = self.heard.get()
        if line == "gone":
            assert player.writing is not None
            player.writing.ended = player.writing.ended or "killed"
            if player in self.players:
                self.players[self.players.index(player)] = self.spare
                self.spare = self.player()
            return
        word, seed, value = line.split()
        self.writings[int(seed)].hear(word, value)

    def living(self) -> list[Player]:
        """Give the processes whose writer has not ended."""
        return [one for one in self.players if one.writing and one.writing.ended is None]

    def round(self) -> str:
        """Play one, and say what happened."""
        chance = self.chance
        number = chance.choice([signal.SIGKILL, signal.SIGSTOP])
        frozen = chance.choice(sorted(ZONES)) if chance.random() < 0.2 else None
        if frozen is not None:
            self.bookies.freeze(frozen)
        try:
            victim, what = self._strike(number)
            for player in self.players:
                if player is not victim and player not in self.living():
                    self.write(player)
            self._until_one_is_left(victim if number is signal.SIGSTOP else None)
        finally:
            if frozen is not None:
                self.bookies.thaw(frozen)
        [winner] = self.living()
        assert winner.writing is not None
        return f"{what}, {number.name}; writer {winner.writing.seed} has the log"

    def _strike(self, number: signal.Signals) -> tuple[Player, str]:
        """Kill or stop a writer, in its opening, in a rotation, or anywhere."""
        holders, free = self.living(), [one for one in self.players if one not in self.living()]
        if holders and self.chance.random() < 0.35:
            [victim] = holders
            assert victim.writing is not None
            for _ in range(self.chance.randrange(15)):
                self.hear()
            if number is signal.SIGKILL:
                victim.process.kill()
            else:
                victim.process.stop()
            victim.stopped = True
            return victim, "while it wrote"
        victim, point = self.chance.choice(free), self.chance.choice(POINTS)
        passes = self.chance.randint(1, 1 if point.endswith("claim") else PASSES_MAX)
        writing = self.write(victim, point, passes, int(number))
        # Not every point is passed so often: a drop is seldom, and another writer may be faster.
        # A writer that has so many acknowledgements does not strike itself any more.
        while writing.at is None and writing.ended is None and writing.acks < ARMED_ACKS:
            self.hear()
        if writing.at is not None:
            self.reached.append(f"{point} {number.name}")
        victim.stopped = writing.at is not None
        return victim, f"at {point} ({passes})"

    def _until_one_is_left(self, stopped: Player | None) -> None:
        """Wait until one writer has the log, and was acknowledged something since."""
        while True:
            awake = [one for one in self.living() if one is not stopped or not one.stopped]
            if len(awake) == 1 and awake[0].writing is not None:
                if awake[0].writing.acks < ACKS_A_ROUND:
                    self.hear()
                    continue
                if stopped is not None and stopped.stopped:
                    stopped.process.go_on()
                    stopped.stopped = False
                    continue
                if len(self.living()) == 1:
                    return
            self.hear()


def runs_of(line: str) -> tuple[int, str, list[tuple[int, int, int]]]:
    """Give the end, the digest, and who wrote what."""
    word, end, digest, runs = line.split()
    assert word == "read", line
    found = []
    for run in runs.split(","):
        seed, _, stretch = run.partition(":")
        first, _, last = stretch.partition("-")
        found.append((int(seed), int(first), int(last)))
    return int(end), digest, found


def check(game: Game, tail: PythonProcess, told: list[str]) -> None:
    """Hold what every game must show."""
    [winner] = game.living()
    assert winner.writing is not None
    reader = PythonProcess("tests.takeover.log_actor", game.bookies.address, game.name)
    game.started.append(reader)
    assert reader.line() == "ready"
    reader.say("who")
    word, seed, epoch = reader.line().split()
    assert (word, int(seed)) == ("who", winner.writing.seed), told
    opened = [one for one in game.writings.values() if one.first is not None]
    assert len(opened) <= int(epoch) <= len(game.writings), "a claim has one writer"
    winner.process.kill()
    closer = game.write(game.spare)  # it settles what the winner left
    while closer.first is None:
        game.hear()
    lines = []
    for _ in range(2):
        reader.say("read")
        lines.append(reader.line())
    end, digest, runs = min(map(runs_of, lines))
    tail.say(f"until {end}")
    assert runs_of(tail.line()) == (end, digest, runs), "a tail and a reader disagree"
    ends = {seed: last + 1 for seed, _, last in runs}
    assert len(ends) == len(runs), f"a writer came back: {runs}"
    firsts = {seed: first for seed, first, _ in runs}
    for one in game.writings.values():
        if one.acks and one is not closer:
            assert one.first == firsts.get(one.seed), f"{one} in {runs}: {told}"
            assert one.end <= ends[one.seed], f"acknowledged and lost: {one} in {runs}: {told}"


def play(bookies: BookieProcesses, seed: int) -> list[str]:
    name = f"games/{seed}"

    async def make() -> None:
        async with connect(bookies.address) as logs:
            await logs.create(name, RULES)

    asyncio.run(make())
    told: list[str] = []
    with processes() as started:
        game = Game(bookies, started, name, random.Random(seed))
        tail = PythonProcess("tests.takeover.log_actor", bookies.address, name)
        started.append(tail)
        assert tail.line() == "ready"
        tail.say("tail")
        for number in range(ROUNDS_A_GAME):
            told.append(f"round {number}: {game.round()}")
        check(game, tail, told)
        for one in game.writings.values():
            assert one.ended in (None, "LogTaken", "killed"), f"{one}: {told}"
    return game.reached


@pytest.mark.parametrize("seed", range(GAMES))
def test_contenders_for_a_log_lose_nothing_and_one_wins(
    bookies: BookieProcesses, seed: int
) -> None:
    assert play(bookies, seed), "no round reached a point"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(GAMES, GAMES_LONG))
def test_more_contenders_for_a_log(bookies: BookieProcesses, seed: int) -> None:
    play(bookies, seed)
