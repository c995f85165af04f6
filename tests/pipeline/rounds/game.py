"""Rounds of faults: a log goes through Spark into another log, and nothing is lost or doubled.

A game is a query over one log into another, with one checkpoint. In each round messages are
appended, one fault is armed, and the query runs until the end of its log, by as many runs as that
takes. Behind each round all of the second log is compared with what must be there.
"""

import dataclasses
import json
import os
import queue
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.pipeline.rounds import faulty, queries
from tests.pipeline.rounds.driver import RunWanted
from tests.support.bookie_processes import BookieProcesses
from tests.support.python_process import PythonProcess
from tests.support.zookeeper import Ensemble
from zonekeeper.log.api.blocking import BlockingLogs
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.metadata.formats.log_record import LogRules

#: What happens while a process is at its point.
OUTAGES = ("zookeeper", "bookie", "trim")
RULES = LogRules(rotate_messages=400)
RUNS_MAX = 6
#: Spark gives a process of Python ten seconds to start, which a busy machine may not do. Such a
#: start is no run.
LATE = ("Python worker to connect back", "Python worker failed to connect back")
STARTS_MAX = 30
DOWN_S = 1.5
LOOK_S = 0.02
#: A run that says nothing for so long is a failure of the round.
LIMIT_S = 360


@dataclass(frozen=True, slots=True)
class RoundFault:
    """A point, what happens there, and during an outage: of what."""

    point: str
    kind: str
    outage: str = ""

    def __str__(self) -> str:
        return f"{self.outage or self.kind} {self.point}".strip()


FAULTS = (
    RoundFault("", "none"),
    *(RoundFault(point, kind) for kind in ("raise", "exit", "jvm") for point in faulty.IN_TASK),
    *(RoundFault(point, kind) for kind in ("raise", "jvm") for point in faulty.AT_COMMIT),
    *(
        RoundFault(point, "wait", outage)
        for outage in OUTAGES
        for point in ("in", "after", *faulty.AT_COMMIT)
    ),
)


class RoundsDriver:
    """The process of the driver; it is started again when it has ended."""

    def __init__(self) -> None:
        self.heard: queue.Queue[str | None] = queue.Queue()
        self.starts = 0
        self._process: PythonProcess | None = None
        self._jvm = 0

    def say(self, wanted: RunWanted) -> None:
        if self._process is None:
            self._start()
        assert self._process is not None
        self._process.say(json.dumps(dataclasses.asdict(wanted)))

    def _start(self) -> None:
        self.starts += 1
        self.heard = queue.Queue()
        self._process = PythonProcess("tests.pipeline.rounds.driver")
        word, jvm = self._process.line().split()
        assert word == "ready"
        self._jvm = int(jvm)
        threading.Thread(target=_listen, args=(self._process, self.heard), daemon=True).start()

    def end(self) -> None:
        """End what is left of it."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.kill(self._jvm, signal.SIGKILL)
            self._process.end()
            self._process = None


def _listen(process: PythonProcess, heard: "queue.Queue[str | None]") -> None:
    assert process._process.stdout is not None
    with suppress(ValueError):  # the pipe was closed meanwhile
        for line in process._process.stdout:
            heard.put(line.strip())
    heard.put(None)


@dataclass(slots=True, kw_only=True)
class SparkGame:
    """One query, and what it was given so far."""

    zookeeper: Ensemble
    bookies: BookieProcesses
    logs: BlockingLogs
    driver: RoundsDriver
    folder: Path
    name: str
    query: str
    chance: random.Random
    every: list[LogMessage] = field(default_factory=list)
    before: list[LogMessage] = field(default_factory=list)
    number: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        for name in (self.of, self.to):
            self.logs.create(name, RULES)

    @property
    def of(self) -> str:
        return f"{self.name}/from"

    @property
    def to(self) -> str:
        return f"{self.name}/to"

    @property
    def armed(self) -> Path:
        return self.folder / "fault.armed"

    def round(self, fault: RoundFault) -> str:
        """Play one, check all, and say what happened."""
        began = time.perf_counter()
        self.before = list(self.every)
        self._append()
        self._arm(fault)
        runs, batches = self._run(fault)
        struck = not self.armed.exists()
        self.armed.unlink(missing_ok=True)
        found = self._check()
        self.number += 1
        return (
            f"{self.query}: {fault}{'' if struck else ' (not struck)'}; {runs} runs, "
            f"{batches} batches, {found} of {len(self.every)} messages, "
            f"{time.perf_counter() - began:.1f} s"
        )

    def _append(self) -> None:
        count = self.chance.randint(60, 700)
        many = queries.fresh(self.chance, queries_next(self.every), count)
        if queries.QUERIES[self.query].repeats and self.every:
            for _ in range(0, count, queries.AGAIN_EVERY):
                many.insert(self.chance.randrange(len(many)), self.chance.choice(self.every))
        with self.logs.writer(self.of) as writer:
            writer.flushed(writer.append_many(many) - 1)
        self.every += many

    def _arm(self, fault: RoundFault) -> None:
        for suffix in (".taken", ".waits", ".goes"):
            self.armed.with_suffix(suffix).unlink(missing_ok=True)
        if fault.point:
            part = self.armed.with_suffix(".part")
            part.write_text(f"{fault.point} {fault.kind}")
            part.rename(self.armed)

    def _run(self, fault: RoundFault) -> tuple[int, int]:
        batches, runs, told = 0, 0, list[str]()
        while runs < RUNS_MAX and len(told) < STARTS_MAX:
            self.driver.say(
                RunWanted(
                    query=self.query,
                    metadata=self.bookies.address,
                    of=self.of,
                    to=self.to,
                    checkpoint=str(self.folder / "checkpoint"),
                    armed=str(self.armed),
                    rows=self.chance.choice([150, 300, 1_000]),
                )
            )
            line = self._heard(fault)
            if line is None:
                self.driver.end()
                line = "failed the driver has ended"
            word, _, rest = line.partition(" ")
            runs += not any(late in rest for late in LATE)
            if word == "done":
                return runs, batches + int(rest)
            told.append(rest)
        raise AssertionError(f"{fault}: not done by {runs} runs: {told}")

    def _heard(self, fault: RoundFault) -> str | None:
        """Wait for the end of a run; let the outage happen when a process waits for it."""
        until = time.perf_counter() + LIMIT_S
        while time.perf_counter() < until:
            with suppress(queue.Empty):
                return self.driver.heard.get(timeout=LOOK_S)
            waits = self.armed.with_suffix(".waits")
            if waits.exists():
                waits.unlink()
                with self._outage(fault.outage):
                    self.armed.with_suffix(".goes").touch()
                    with suppress(queue.Empty):
                        return self.driver.heard.get(timeout=self.chance.random() * DOWN_S)
        raise AssertionError(f"{fault}: the driver says nothing for {LIMIT_S} s")

    @contextmanager
    def _outage(self, what: str) -> Iterator[None]:
        match what:
            case "zookeeper":
                [server] = self.zookeeper.servers
                server.kill()
                try:
                    yield
                finally:
                    server.start()
                    self.zookeeper.wait_until_ready()
            case "bookie":
                lost = self.chance.choice(sorted(self.bookies.names()))
                self.bookies.kill(lost)
                try:
                    yield
                finally:
                    self.bookies.start(lost)
            case "trim":
                self.logs.trim(self.of, self.logs.cursors(self.of)["rounds"].position.sequence)
                yield
            case _:
                raise AssertionError(what)

    def _check(self) -> int:
        came = list(self.logs.reader(self.to).read_messages())
        assert [one.sequence for one in came] == list(range(len(came))), "sequences have a gap"
        wanted = queries.QUERIES[self.query]
        found = Counter(one.message for one in came)
        must = Counter(wanted.must(self.every, self.before))
        may = Counter(wanted.may(self.every))
        lost, more = must - found, found - may
        assert not lost, f"{lost.total()} lost: {list(lost)[:3]}"
        assert not more, f"{more.total()} twice, or foreign: {list(more)[:3]}"
        return len(came)


def queries_next(every: list[LogMessage]) -> int:
    """Give the number of the next fresh message."""
    return 1 + max(map(queries.number_of, every), default=-1)
