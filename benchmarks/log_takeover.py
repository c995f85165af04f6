"""How long a log has no writer when its writer is killed: real processes, ZooKeeper and bookies.

    python -m benchmarks.log_takeover [--rounds 20] [--logs 1000]

In each round the writer of a log is killed (-9) amid a burst of 10,000 messages, and a candidate
that stands by takes the log over. RTO: from the kill to the first acknowledgement of the next
writer. Most of it is the session of the one that died (5 s, and one tick of ZooKeeper). Recovery:
from the end of the session, as the next writer sees it, until it can write. RPO: the acknowledged
messages that the log does not have.

Then a process that writes many logs is killed: the requests at the store of the next one, for all
logs, and the time until its last log has an acknowledgement.
"""

import argparse
import asyncio
import queue
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.support import accounting
from tests.support import zookeeper
from tests.support.bookie_processes import bookie_processes, make_cluster
from tests.support.python_process import PythonProcess, processes
from zonekeeper.log import connect
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules, Policy

BURST: Final = 10_000
NAME: Final = "bench/one"
#: A process says a line within this time, or the benchmark gives up.
_LINE_S: Final = 600


@dataclass
class Candidate:
    """A process that stands by, and its lines with the time of each."""

    process: PythonProcess
    #: For each log: messages below it are acknowledged.
    ends: dict[str, int] = field(default_factory=dict)
    #: For each log, when it was first acknowledged something.
    first_ack_s: dict[str, float] = field(default_factory=dict)
    opening_ms: dict[str, int] = field(default_factory=dict)
    asked: int | None = None
    stands: bool = False
    gone: bool = False
    _heard: "queue.Queue[tuple[float, str]]" = field(default_factory=queue.Queue)

    def __post_init__(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        output = self.process._process.stdout  # noqa: SLF001 a test's own process
        assert output is not None
        for line in output:
            if line.endswith("\n"):
                self._heard.put((time.perf_counter(), line))
        self._heard.put((time.perf_counter(), "gone"))

    def hear(self) -> None:
        """Take the next line."""
        at_s, line = self._heard.get(timeout=_LINE_S)
        match line.split():
            case ["turn", name, _, opening_ms]:
                self.opening_ms[name] = int(opening_ms)
            case ["acked", name, end]:
                self.first_ack_s.setdefault(name, at_s)
                self.ends[name] = int(end)
            case ["stands"]:
                self.stands = True
            case ["asked", count]:
                self.asked = int(count)
            case ["gone"]:
                self.gone = True

    def until_standing(self) -> None:
        """Wait until it is a candidate of all its logs."""
        while not self.stands:
            self.hear()

    def until_acked(self, logs: int) -> None:
        """Wait until so many logs have an acknowledgement."""
        while len(self.first_ack_s) < logs:
            self.hear()

    def requests(self) -> int:
        """Give how many requests it made at the store since it stands."""
        self.asked = None
        self.process.say("asked")
        while self.asked is None:
            self.hear()
        return self.asked

    def kill(self) -> float:
        """Kill it, hear what it said before, and give when that was."""
        at_s = time.perf_counter()
        self.process.kill()
        while not self.gone:
            self.hear()
        return at_s


@contextmanager
def cluster() -> Iterator[str]:
    """Give the address of a new cluster with three bookies."""
    bookies = {BookieId(f"bk-{zone}-0"): ZoneName(zone) for zone in "abc"}
    policy = Policy(
        placement=PlacementRules(zones=tuple(sorted(set(bookies.values())))),
        quorums=Quorums(ensemble=3, write=3, ack=2),
    )
    with (
        tempfile.TemporaryDirectory(prefix="benchmark-") as folder,
        zookeeper.single() as ensemble,
    ):
        address = f"zk://{ensemble.addresses}/takeover"
        asyncio.run(make_cluster(address, policy))
        with bookie_processes(address, Path(folder), bookies) as running:
            running.start()
            yield address


async def make(address: str, names: list[str]) -> None:
    """Make logs."""
    async with connect(address) as logs:
        for name in names:
            await logs.create(name)


async def messages_of(address: str, name: str) -> int:
    """Count the messages of a log whose writer died; their sequences must be dense."""
    count = 0
    async with connect(address) as logs:
        async with logs.writer(name):
            pass  # readers see all that is acknowledged once the last ledger is settled
        async for many in logs.reader(name).read():
            for one in many:
                said = int(bytes(one.message.payload).split()[0])
                if not said == one.sequence == count:
                    raise AssertionError(f"message {one.sequence} is {one.message}")
                count += 1
    return count


def one_log(address: str, rounds: int, started: list[PythonProcess]) -> None:
    """Kill the writer of one log so often, and print what that costs."""
    asyncio.run(make(address, [NAME]))

    def candidate(number: int) -> Candidate:
        process = PythonProcess(
            "tests.takeover.standby_actor", address, f"h-{number}", "a", str(BURST), NAME
        )
        started.append(process)
        return Candidate(process)

    writer = candidate(0)
    writer.until_acked(1)
    took_s, recovery_ms, lost = list[float](), list[int](), 0
    for number in range(1, rounds + 1):
        following = candidate(number)
        following.until_standing()
        killed_s = writer.kill()
        acked = writer.ends[NAME]
        following.until_acked(1)
        took_s.append(following.first_ack_s[NAME] - killed_s)
        recovery_ms.append(following.opening_ms[NAME])
        writer = following
        lost += max(0, acked - (following.ends[NAME] - BURST))
    writer.kill()
    count = asyncio.run(messages_of(address, NAME))
    lost += max(0, writer.ends[NAME] - count)
    print(f"\n{rounds} kills of a writer with up to {BURST} messages that are not acknowledged:")
    for what, found in (("RTO, s", took_s), ("recovery, ms", recovery_ms)):
        ordered = sorted(found)
        p99 = ordered[int(0.99 * (len(ordered) - 1))]
        print(f"{what:16} p50 {median(ordered):8.2f}  p99 {p99:8.2f}  most {ordered[-1]:8.2f}")
    print(f"{'RPO':16} {lost} acknowledged messages lost, of {count} in the log")


def many_logs(address: str, count: int, started: list[PythonProcess]) -> None:
    """Kill a process that writes many logs, and print what that costs."""
    names = [f"many/{number}" for number in range(count)]
    asyncio.run(make(address, names))

    def candidate(name: str) -> Candidate:
        process = PythonProcess("tests.takeover.standby_actor", address, name, "a", "0", *names)
        started.append(process)
        return Candidate(process)

    writer = candidate("w")
    writer.until_acked(count)
    following = candidate("f")
    following.until_standing()
    before = following.requests()
    killed_s = writer.kill()
    following.until_acked(count)
    acks = sorted(following.first_ack_s.values())
    asked = following.requests() - before
    print(f"\na process that wrote {count} logs is killed:")
    print(f"first ack {acks[0] - killed_s:.2f} s, last ack {acks[-1] - killed_s:.2f} s")
    print(f"{asked} requests at the store, {asked / count:.1f} a log; one session")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--logs", type=int, default=1_000)
    given = parser.parse_args()
    print(f"before: {accounting.conditions()}")
    with cluster() as address, processes() as started:
        if given.rounds:
            one_log(address, given.rounds, started)
        if given.logs:
            many_logs(address, given.logs, started)
    print(f"\nafter: {accounting.conditions()}")


if __name__ == "__main__":
    main()
