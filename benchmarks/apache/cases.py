"""The cases of a race: each is one small class with a name, and runs on either side.

What is compared of a case is its ``costs``: each is a figure of which less is better.
"""

import abc
import enum
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from benchmarks.apache.bench import Bench
from benchmarks.apache.laps import Lap
from benchmarks.apache.protocol import DriverFailedError
from benchmarks.apache.sides import RaceSide

MIDDLE: Final = 1_024
#: Entries of the loads of 50 MB/s, and how many of them come in a second.
BULK_BYTES: Final = 16_384
BULK_PER_SECOND: Final = 50_000_000 // BULK_BYTES
#: How long a writer under load may be silent.
_PATIENCE_S: Final = 60


class Cost(enum.Enum):
    """A figure of a lap; less is better."""

    CPU = "CPU-µs an entry"
    WALL = "µs an entry, by the clock"
    P50 = "p50, ms"
    P99 = "p99, ms"
    P999 = "p99.9, ms"
    SECONDS = "seconds"
    CLIENT_MEMORY = "MiB of the client"
    BOOKIES_MEMORY = "MiB of the bookies"


def cost_of(lap: Lap, cost: Cost) -> float | None:
    """Give a figure of a lap; None: the lap has none."""
    figures = {
        Cost.P50: lap.latencies_ms.get("p50_ms"),
        Cost.P99: lap.latencies_ms.get("p99_ms"),
        Cost.P999: lap.latencies_ms.get("p999_ms"),
        Cost.CLIENT_MEMORY: lap.more.get("client_mib"),
        Cost.BOOKIES_MEMORY: lap.more.get("bookies_mib"),
        Cost.SECONDS: lap.more.get("took_s"),
    }
    if cost in figures:
        return figures[cost]
    if lap.entries <= 0:
        return None
    return lap.cpu_us if cost is Cost.CPU else lap.wall_us


@dataclass(frozen=True, slots=True)
class RaceCase(abc.ABC):
    """One thing that both sides do."""

    costs: ClassVar[tuple[Cost, ...]] = (Cost.CPU, Cost.WALL)

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """What it is called on the command line."""

    @abc.abstractmethod
    def run(self, bench: Bench, side: RaceSide, number: int) -> Lap:
        """Run one lap, and check what it did."""


@dataclass(frozen=True, slots=True)
class Saturation(RaceCase):
    """Append as fast as a window of bytes lets it."""

    size: int
    ledgers: int = 1
    ensemble: int = 3
    #: ``many``: we append lists. ``batches``: Apache's application packs records into entries.
    by: str = "append"

    @property
    def name(self) -> str:
        """Name its size, and what is not as usual."""
        ledgers = f"-{self.ledgers}-ledgers" if self.ledgers > 1 else ""
        by = "" if self.by == "append" else f"-{self.by}"
        ensemble = f"-e{self.ensemble}" if self.ensemble != 3 else ""
        return f"append-{self.size}{by}{ledgers}{ensemble}"

    def run(self, bench: Bench, side: RaceSide, number: int) -> Lap:
        """Append, read back."""
        ways = {"many": side.ours, "batches": not side.ours}
        by = self.by if ways.get(self.by, True) else "append"
        window = bench.window_bytes
        begun = side.driver.ask(
            "begin",
            size=self.size,
            ledgers=self.ledgers,
            ensemble=self.ensemble,
            window=window,
            by=by,
        )
        lap = bench.lap(
            self.name,
            number,
            side,
            lambda: side.driver.ask(
                "append", milliseconds=bench.milliseconds, window=window, by=by
            ),
        )
        return bench.checked(lap, begun, side)


@dataclass(frozen=True, slots=True)
class OneOutstanding(RaceCase):
    """Append, wait for the ack, append."""

    costs: ClassVar[tuple[Cost, ...]] = (Cost.P50, Cost.P99, Cost.CPU)

    @property
    def name(self) -> str:
        """Name it."""
        return "one-outstanding"

    def run(self, bench: Bench, side: RaceSide, number: int) -> Lap:
        """Append one by one, read back."""
        begun = side.driver.ask("begin", size=MIDDLE, window=bench.window_bytes)
        lap = bench.lap(
            self.name,
            number,
            side,
            lambda: side.driver.ask("one_at_a_time", milliseconds=bench.milliseconds),
        )
        return bench.checked(lap, begun, side)


@dataclass(frozen=True, slots=True)
class OpenLoop(RaceCase):
    """Append at a rate; latencies count from the intended times."""

    per_second: int
    costs: ClassVar[tuple[Cost, ...]] = (Cost.P50, Cost.P99, Cost.CPU)

    @property
    def name(self) -> str:
        """Name its rate."""
        return f"rate-{self.per_second}"

    def run(self, bench: Bench, side: RaceSide, number: int) -> Lap:
        """Append what is due, read back."""
        begun = side.driver.ask("begin", size=MIDDLE, window=bench.window_bytes)
        lap = bench.lap(
            self.name,
            number,
            side,
            lambda: side.driver.ask(
                "at_rate", milliseconds=bench.milliseconds, per_second=self.per_second
            ),
        )
        return replace(bench.checked(lap, begun, side), meant_s=lap.entries / self.per_second)


@dataclass(frozen=True, slots=True)
class CatchUp(RaceCase):
    """Read a ledger from its first entry to its last, each entry compared."""

    @property
    def name(self) -> str:
        """Name it."""
        return "catch-up"

    def run(self, bench: Bench, side: RaceSide, number: int) -> Lap:
        """Write, close, read; all that was written must be found."""
        written = _written(bench, side)
        lap = bench.lap(self.name, number, side, lambda: side.driver.ask("catch_up"))
        side.driver.ask("finish", window=bench.window_bytes)
        return replace(lap, written=written, found=lap.entries)


@dataclass(frozen=True, slots=True)
class TailLatency(RaceCase):
    """Append at a rate, and follow: from the intended time until a follower has the entry."""

    per_second: int = 1_000
    costs: ClassVar[tuple[Cost, ...]] = (Cost.P50, Cost.P99, Cost.CPU)

    @property
    def name(self) -> str:
        """Name it."""
        return "tail"

    def run(self, bench: Bench, side: RaceSide, number: int) -> Lap:
        """Append and follow, read back."""
        begun = side.driver.ask("begin", size=MIDDLE, window=bench.window_bytes)
        lap = bench.lap(
            self.name,
            number,
            side,
            lambda: side.driver.ask(
                "tail", milliseconds=bench.milliseconds, per_second=self.per_second
            ),
        )
        return replace(bench.checked(lap, begun, side), meant_s=lap.entries / self.per_second)


@dataclass(frozen=True, slots=True)
class RandomReads(RaceCase):
    """Read entries by chance, one at a time, idle or beside appends of 50 MB/s."""

    beside: bool
    costs: ClassVar[tuple[Cost, ...]] = (Cost.P50, Cost.P99)

    @property
    def name(self) -> str:
        """Say what is beside."""
        return "random-reads-beside-appends" if self.beside else "random-reads"

    def run(self, bench: Bench, side: RaceSide, number: int) -> Lap:
        """Write, close, read by chance."""
        _written(bench, side)
        beside = {"under_per_second": BULK_PER_SECOND, "under_size": BULK_BYTES}
        lap = bench.lap(
            self.name,
            number,
            side,
            lambda: side.driver.ask(
                "random_reads", milliseconds=bench.milliseconds, **(beside if self.beside else {})
            ),
        )
        side.driver.ask("finish", window=bench.window_bytes)
        if not self.beside:
            return lap
        # The rate of the appends is judged like that of an open loop.
        slow = BULK_PER_SECOND * bench.seconds / max(1.0, lap.more["written"])
        return replace(lap, meant_s=bench.seconds if slow <= 1.1 else lap.wall_s / 2)


@dataclass(frozen=True, slots=True)
class CreateClose(RaceCase):
    """Create ledgers and close them."""

    outstanding: int
    ledgers: int = 500
    costs: ClassVar[tuple[Cost, ...]] = (Cost.P50, Cost.P99, Cost.CPU, Cost.WALL)

    @property
    def name(self) -> str:
        """Name how many are under way."""
        return f"create-close-{self.outstanding}"

    def run(self, bench: Bench, side: RaceSide, number: int) -> Lap:
        """Create and close."""
        return bench.lap(
            self.name,
            number,
            side,
            lambda: side.driver.ask(
                "create_close",
                ledgers=self.ledgers,
                outstanding=self.outstanding,
                window=bench.window_bytes,
            ),
        )


@dataclass(frozen=True, slots=True)
class WriterKilled(RaceCase):
    """A writer's process is killed; another client recovers the ledger and reads its last entry."""

    costs: ClassVar[tuple[Cost, ...]] = (Cost.SECONDS,)

    @property
    def name(self) -> str:
        """Name it."""
        return "writer-killed"

    def run(self, bench: Bench, side: RaceSide, number: int) -> Lap:
        """Kill a writer under load, recover; all that it knew to be acked must be there."""
        victim = side.new_driver("victim")
        said = []
        try:
            victim.tell("write_for_ever", size=MIDDLE, window=bench.window_bytes)
            for _ in range(max(2, int(bench.seconds * 5))):
                said.append(victim.hear(_PATIENCE_S))
        finally:
            said += victim.kill()
        last = said[-1]
        ledger, acked = int(str(last["ledger"])), int(str(last["acked"]))
        lap = bench.lap(
            self.name,
            number,
            side,
            lambda: side.driver.ask(
                "recover", ledger=ledger, size=MIDDLE, window=bench.window_bytes
            ),
        )
        if lap.entries <= acked:
            raise DriverFailedError(
                f"entry {acked} of ledger {ledger} was acked, and {lap.entries} were recovered"
            )
        return replace(lap, more={**lap.more, "took_s": lap.wall_s, "acked": float(acked)})


@dataclass(frozen=True, slots=True)
class BookieRestart(RaceCase):
    """A bookie is killed at the end of a load, and started again on its journal."""

    costs: ClassVar[tuple[Cost, ...]] = (Cost.SECONDS, Cost.CPU)

    @property
    def name(self) -> str:
        """Name it."""
        return "bookie-restart"

    def run(self, bench: Bench, side: RaceSide, number: int) -> Lap:
        """Append, kill and start a bookie, read back."""
        window = bench.window_bytes
        begun = side.driver.ask("begin", size=MIDDLE, window=window)
        answer = side.driver.ask("append", milliseconds=bench.milliseconds, window=window)
        entries = int(str(answer["entries"]))
        lap = bench.lap(
            self.name,
            number,
            side,
            lambda: {"entries": entries, "seconds": side.restart_bookie()},
        )
        lap = replace(lap, more={**lap.more, "took_s": lap.wall_s})
        return bench.checked(lap, begun, side)


@dataclass(frozen=True, slots=True)
class Sustained(RaceCase):
    """50 MB/s for minutes: ledgers are rolled, every second one is deleted, disks are kept tidy."""

    ledger_bytes: int = 256 << 20
    costs: ClassVar[tuple[Cost, ...]] = (
        *(Cost.P50, Cost.P99, Cost.P999, Cost.CPU),
        *(Cost.CLIENT_MEMORY, Cost.BOOKIES_MEMORY),
    )

    @property
    def name(self) -> str:
        """Name it."""
        return "sustained"

    def run(self, bench: Bench, side: RaceSide, number: int) -> Lap:
        """Append for minutes, and look at the memory."""
        lap = bench.lap(
            self.name,
            number,
            side,
            lambda: side.driver.ask(
                "sustain",
                size=BULK_BYTES,
                per_second=BULK_PER_SECOND,
                milliseconds=round(bench.sustain_s * 1_000),
                ledger_bytes=self.ledger_bytes,
                every=16,
                window=64 << 20,
            ),
        )
        return replace(
            lap,
            meant_s=lap.entries / BULK_PER_SECOND,
            more={**lap.more, **side.memory_mib()},
        )


def _written(bench: Bench, side: RaceSide) -> int:
    """Write a ledger for reads, and say how many entries it has."""
    window = bench.window_bytes
    side.driver.ask("begin", size=MIDDLE, window=window)
    side.driver.ask("append", milliseconds=bench.milliseconds, window=window)
    return int(str(side.driver.ask("keep")["entries"]))


#: What `make race` runs without a choice; the others are asked for by name.
USUAL: Final[tuple[RaceCase, ...]] = (
    Saturation(100),
    Saturation(100, by="many"),
    Saturation(100, ledgers=100),
    Saturation(1_024),
    Saturation(1_024, ledgers=100),
    Saturation(1_024, by="batches"),
    Saturation(65_536),
    Saturation(65_536, ledgers=100),
    OneOutstanding(),
    OpenLoop(1_000),
    OpenLoop(5_000),
    OpenLoop(20_000),
    CatchUp(),
    TailLatency(),
    RandomReads(beside=False),
    RandomReads(beside=True),
    CreateClose(1),
    CreateClose(16),
    WriterKilled(),
    BookieRestart(),
)
#: Needs five bookies; takes minutes.
OTHERS: Final[tuple[RaceCase, ...]] = (Saturation(1_024, ensemble=5), Sustained())
EVERY: Final = {case.name: case for case in (*USUAL, *OTHERS)}
