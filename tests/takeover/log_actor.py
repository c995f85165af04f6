"""A process of the log takeover game; ``python -m tests.takeover.log_actor ADDRESS LOG``.

It says ``ready``, then does what each line of its input says:

- ``write SEED``: opens the log for writing (``opened SEED FIRST``) and appends in bursts that the
  seed draws; after each acknowledgement ``acked SEED END``: messages below END are stored. Ends
  with ``ended SEED WHY``, also where it never opened.
- ``write SEED POINT COUNT SIGNAL``: the same; but when the point is passed the COUNTth time, and
  the writer has fewer than ARMED_ACKS acknowledgements, it says ``at SEED POINT`` and sends itself
  the signal.
- ``read``: reads the log whole: ``read END DIGEST RUNS``.
- ``tail``: begins to follow the log, and disturbs no writer; says nothing.
- ``until END``: waits until the tail has messages below END, and says ``read`` of these.
- ``who``: says which writer the record names, and which epoch: ``who SEED EPOCH``.

What a message holds is made of its writer's draw, which no other has, and the sequence that the
writer was given. RUNS says which writer wrote what: ``SEED:FIRST-LAST`` for each stretch.
"""

import asyncio
import hashlib
import os
import random
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from itertools import count
from typing import Final

from tests.client.patience import PATIENT
from tests.support.python_process import run, tell
from zonekeeper.client.api.client import Client
from zonekeeper.log import LogMessage, connect
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.api.log_reader import ReadMessages
from zonekeeper.metadata.logs import logs
from zonekeeper.placement.base.troubles import Trouble

#: The steps of opening and of rotation; each is passed before and after.
STEPS: Final[dict[str, object]] = {
    "claim": logs, "create": Client, "add": logs, "end": logs, "drop": logs,
}  # fmt: skip
POINTS: Final = tuple(f"{when}-{step}" for step in STEPS for when in ("before", "after"))
#: Behind so many acknowledgements nobody waits for a point any more, so none is to come.
ARMED_ACKS: Final = 15
#: A writer that is not stopped ends by itself, far beyond what a round waits for.
_BURSTS_MAX: Final = 20_000
_BURST_MESSAGES_MAX: Final = 8
_PADDING_BYTES_MAX: Final = 500


def payload(seed: int, sequence: int) -> bytes:
    """Make a message's content: its name, and padding that follows from it."""
    name = f"{seed}:{sequence}:"
    chance = random.Random(name)
    return name.encode() + chance.randbytes(chance.randrange(_PADDING_BYTES_MAX))


class Pass:
    """A point at which this process sends itself a signal; there is one at most."""

    def __init__(self) -> None:
        self._seed, self._point, self._left, self._signal = 0, "", 0, signal.SIGKILL
        for step, home in STEPS.items():
            setattr(home, step, self._passing(step, getattr(home, step)))

    def set(self, seed: int, point: str, times: int, number: signal.Signals) -> None:
        self._seed, self._point, self._left, self._signal = seed, point, times, number

    def clear(self) -> None:
        self._left = 0

    def _passing(self, step: str, done: Callable[..., Awaitable[object]]) -> Callable[..., object]:
        async def passing(*arguments: object, **named: object) -> object:
            self._at(f"before-{step}")
            given = await done(*arguments, **named)
            self._at(f"after-{step}")
            return given

        return passing

    def _at(self, point: str) -> None:
        if point != self._point or not self._left:
            return
        self._left -= 1
        if self._left == 0:
            tell(f"at {self._seed} {point}")
            os.kill(os.getpid(), self._signal)


async def write(log: LogClient, name: str, seed: int, passing: Pass) -> None:
    chance = random.Random(seed)
    try:
        async with log.writer(name, address=str(seed)) as writer:
            tell(f"opened {seed} {writer.next_sequence}")
            for burst in range(_BURSTS_MAX):
                for _ in range(chance.randint(1, _BURST_MESSAGES_MAX)):
                    given = writer.next_sequence
                    assert await writer.append(LogMessage(payload=payload(seed, given))) == given
                last = writer.next_sequence - 1
                if chance.random() < 0.3:
                    await writer.flushed(last)
                else:
                    await writer.stored(last)
                if burst + 1 == ARMED_ACKS:
                    passing.clear()
                tell(f"acked {seed} {last + 1}")
        tell(f"ended {seed} Closed")
    except Trouble as error:
        tell(f"ended {seed} {type(error).__name__}")


class Seen:
    """What was read, from the first message on: how many, their digest, and who wrote them."""

    def __init__(self) -> None:
        self.end = 0
        self._digest = hashlib.sha256()
        self._runs: list[list[int]] = []
        self.grown = asyncio.Event()
        self._told: dict[int, str] = {}

    async def take(self, many: AsyncGenerator[ReadMessages, None]) -> None:
        async with aclosing(many) as every:
            async for batch in every:
                for one in batch:
                    self._take(one.sequence, bytes(one.message.payload))
                self.grown.set()
                self.grown.clear()

    def _take(self, sequence: int, content: bytes) -> None:
        seed = int(content.split(b":", 1)[0])
        if sequence != self.end or content != payload(seed, sequence):
            tell(f"foreign {sequence} {content[:20]!r}")
        if not self._runs or self._runs[-1][0] != seed:
            self._runs.append([seed, sequence, sequence])
        self._runs[-1][2] = sequence
        self._digest.update(content)
        self.end += 1
        runs = ",".join(f"{seed}:{first}-{last}" for seed, first, last in self._runs)
        self._told[self.end] = f"read {self.end} {self._digest.hexdigest()} {runs}"

    async def until(self, end: int) -> str:
        while self.end < end:
            await self.grown.wait()
        return self._told[end]


async def main(address: str, name: str) -> None:
    passing, seen = Pass(), Seen()
    async with connect(address, PATIENT) as log, asyncio.TaskGroup() as tasks:
        tell("ready")
        for _ in count():
            words = (await asyncio.to_thread(sys.stdin.readline)).split()
            match words:
                case []:
                    os._exit(0)
                case ["write", seed]:
                    passing.clear()
                    tasks.create_task(write(log, name, int(seed), passing))
                case ["write", seed, point, times, number]:
                    passing.set(int(seed), point, int(times), signal.Signals(int(number)))
                    tasks.create_task(write(log, name, int(seed), passing))
                case ["read"]:
                    whole = Seen()
                    await whole.take(log.reader(name).read())
                    tell(await whole.until(whole.end))
                case ["tail"]:
                    tasks.create_task(seen.take(log.reader(name).follow()))
                case ["until", end]:
                    tell(await seen.until(int(end)))
                case ["who"]:
                    record = await log.record(name)
                    assert record.writer is not None
                    tell(f"who {record.writer.address} {record.epoch}")
                case _:
                    raise AssertionError(words)


if __name__ == "__main__":
    run(main(*sys.argv[1:]))
