"""Candidates of a log as processes, on a real ZooKeeper and real bookies.

A writer is killed, stopped for longer than its session, and cut off from the standby alone. Each
time the other candidate takes the log over, and the log goes back to the first zone at a rotation.
Every acknowledged message is in the log once, and a candidate that comes back yields.
"""

import asyncio
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.support import zookeeper
from tests.support.bookie_processes import BookieProcesses, bookie_processes, make_cluster
from tests.support.python_process import PythonProcess, processes
from zonekeeper.log import LogRules, connect
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules, Policy

pytestmark = pytest.mark.processes

ZONES = {BookieId(f"bk-{zone}-0"): ZoneName(zone) for zone in "abc"}
NAME = "orders/eu-1"
#: A rotation each second or so.
RULES = LogRules(rotate_messages=40)


@pytest.fixture(scope="module")
def bookies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BookieProcesses]:
    with zookeeper.single() as ensemble:
        address = f"zk://{ensemble.addresses}/standby"
        policy = Policy(
            quorums=Quorums(ensemble=3, write=3, ack=2, ack_zones=2),
            placement=PlacementRules(zones=tuple(sorted(set(ZONES.values())))),
        )
        asyncio.run(make_cluster(address, policy))
        folder = tmp_path_factory.mktemp("standby")
        with bookie_processes(address, folder, ZONES) as started:
            started.start()
            yield started
            assert started.ended() == []


@dataclass
class Candidate:
    """A process, and what it said."""

    name: str
    process: PythonProcess
    turns: list[int] = field(default_factory=list)
    #: For each turn, below which sequence all is stored.
    ends: list[int] = field(default_factory=list)
    overs: list[str] = field(default_factory=list)
    stands: bool = False
    gone: bool = False
    heard: "queue.Queue[str]" = field(default_factory=queue.Queue)

    def __post_init__(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process._process.stdout is not None
        for line in self.process._process.stdout:
            if line.endswith("\n"):
                self.heard.put(line.strip())
        self.heard.put("gone")

    def hear(self) -> None:
        """Take the next line."""
        match self.heard.get().split():
            case ["turn", _, first, _]:
                self.turns.append(int(first))
                self.ends.append(int(first))
            case ["acked", _, end]:
                self.ends[-1] = int(end)
            case ["over", _, why]:
                self.overs.append(why)
            case ["stands"]:
                self.stands = True
            case ["gone"]:
                self.gone = True
            case ["ready"]:
                pass
            case words:
                raise AssertionError(words)

    def until_turn(self, number: int, acks: int = 3) -> None:
        """Wait until it has had so many turns, and was acknowledged something in the last one."""
        while len(self.turns) < number or self.ends[-1] < self.turns[-1] + acks:
            self.hear()

    def until_over(self, number: int) -> None:
        while len(self.overs) < number:
            self.hear()

    def until_standing(self) -> None:
        while not self.stands:
            self.hear()

    def drain(self) -> None:
        """Hear all that it said, once it is gone."""
        while not self.gone:
            self.hear()


def test_candidates_take_over_and_give_back(bookies: BookieProcesses) -> None:
    asyncio.run(make(bookies.address))
    with processes() as started:

        def candidate(name: str, zone: str) -> Candidate:
            process = PythonProcess(
                "tests.takeover.standby_actor", bookies.address, name, zone, "1", NAME
            )
            started.append(process)
            return Candidate(name, process)

        first = candidate("a-1", "a")
        first.until_turn(1)
        second = candidate("b-1", "b")
        second.until_standing()
        assert not second.turns

        first.process.kill()
        first.drain()
        second.until_turn(1)

        third = candidate("a-1", "a")  # the same name again, in a new life
        third.until_turn(1)
        second.until_over(1)
        assert second.overs[-1] == "given"

        third.process.stop()
        second.until_turn(2)
        third.process.go_on()
        third.until_over(1)
        assert third.overs == ["lost"]
        third.until_turn(2)
        second.until_over(2)

        third.process.say("cut")
        second.until_turn(3)
        third.until_over(2)
        assert third.overs[-1] == "lost"
        third.process.say("mend")
        third.until_turn(3)
        second.until_over(3)

        third.process.say("leave")
        third.until_over(3)
        second.until_turn(4)
        second.process.say("leave")
        second.drain()
        third.drain()
        asyncio.run(check(bookies.address, [first, second, third]))


async def make(address: str) -> None:
    async with connect(address) as logs:
        await logs.create(NAME, RULES)


async def check(address: str, candidates: list[Candidate]) -> None:
    """Each acknowledged message is in the log, at its sequence, of the candidate that wrote it."""
    async with connect(address) as logs:
        async with logs.writer(NAME):
            pass  # it settles what a killed writer left
        found = [
            bytes(one.message.payload).decode().split()
            async for many in logs.reader(NAME).read()
            for one in many
        ]
    assert [int(sequence) for sequence, _ in found] == list(range(len(found)))
    acked = set[int]()
    for one in candidates:
        for first, end in zip(one.turns, one.ends, strict=True):
            stretch = range(first, end)
            assert acked.isdisjoint(stretch), "acknowledged to two"
            acked.update(stretch)
            assert all(found[number][1] == one.name for number in stretch)
    assert acked
    assert max(acked) < len(found)
