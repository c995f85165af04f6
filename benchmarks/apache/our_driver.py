"""The load driver of zonekeeper: it obeys the same lines as ``Driver.java``, and stays warm, too.

    python -m benchmarks.apache.our_driver STORE WAY PAYLOAD_FILE [AUTHORITY CERTIFICATE KEY]

A line of standard input is ``verb name=value ...``; an answer is one line of JSON behind ``@@``.
Latencies are in microseconds; at a rate they count from the intended time. The window is in bytes
over all ledgers, so each writer's budget is its share.
"""

import asyncio
import itertools
import random
import sys
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from benchmarks.apache import our_lives, protocol
from benchmarks.support import loads
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client
from zonekeeper.client.api.reader import Reader
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.client.base.ways import BookieWay
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.grpc.tls import TlsFiles

#: How many entries one call of ``append_many`` has.
MANY: Final = 1_000
#: How many appends are made between two looks at the clock.
_LOOK_EVERY: Final = 64
_TICK_S: Final = 0.001

Answer: TypeAlias = dict[str, object]


class OurDriver:
    """Ledgers of one process, loaded as the lines say."""

    def __init__(
        self, address: str, config: ClientConfig, payload: bytes, ends: AsyncExitStack
    ) -> None:
        self._address = address
        self._config = config
        self._bytes = payload
        self._ends = ends
        #: By the budget of a writer.
        self._clients: dict[int, Client] = {}
        self._client: Client | None = None
        self._writers: list[Writer] = []
        self._kept: list[LedgerId] = []
        self._payload = b""

    async def obey(self, verb: str, given: protocol.Given) -> Answer:
        """Do what one line says."""
        obeyed = {
            "begin": self.begin,
            "append": self.append,
            "one_at_a_time": self.one_at_a_time,
            "at_rate": self.at_rate,
            "keep": self.keep,
            "finish": self.finish,
            "catch_up": self.catch_up,
            "random_reads": self.random_reads,
            "tail": self.tail,
            "create_close": self.create_close,
            "recover": self.recover,
            "write_for_ever": self.write_for_ever,
            "sustain": self.sustain,
        }
        if verb not in obeyed:
            raise ValueError(f"{verb}: no such command")
        return await obeyed[verb](given)

    async def client(self, window: int, ledgers: int = 1) -> Client:
        """Give a client whose writers share a window."""
        budget = max(1, window // ledgers)
        if budget not in self._clients:
            config = replace(self._config, writer_budget_bytes=budget)
            entered = clients.connect(self._address, config)
            self._clients[budget] = await self._ends.enter_async_context(entered)
        return self._clients[budget]

    async def begin(self, given: protocol.Given) -> Answer:
        """Make ledgers with one entry each: so each is open at its bookies."""
        count = given.number("ledgers", 1)
        self._payload = self._bytes[: given.number("size")]
        self._client = await self.client(given.number("window"), count)
        quorums = our_lives.quorums_of(given)
        self._writers = [await self._client.create(quorums=quorums) for _ in range(count)]
        for writer in self._writers:
            await writer.append_and_wait(self._payload)
        return {"entries": count}

    async def append(self, given: protocol.Given) -> Answer:
        """Append as fast as the window lets it, over all ledgers in turn."""
        if given.text("by", "append") == "many":
            return await self._append_many(given)
        payload, writers = self._payload, self._writers
        began = time.perf_counter()
        until, entries = began + given.number("milliseconds") / 1e3, 0
        turn = itertools.cycle([writer.append for writer in writers])
        while time.perf_counter() < until:
            for _ in range(_LOOK_EVERY):
                await next(turn)(payload)
            entries += _LOOK_EVERY
        return await self._flushed(entries, began)

    async def _append_many(self, given: protocol.Given) -> Answer:
        many = [self._payload] * MANY
        began = time.perf_counter()
        until, entries = began + given.number("milliseconds") / 1e3, 0
        turn = itertools.cycle(self._writers)
        while time.perf_counter() < until:
            await next(turn).append_many(many)
            entries += MANY
        return await self._flushed(entries, began)

    async def _flushed(self, entries: int, began: float) -> Answer:
        for writer in self._writers:
            await writer.flush()
        return _done(entries, began)

    async def one_at_a_time(self, given: protocol.Given) -> Answer:
        """Append, wait, append."""
        latencies, append = list[float](), self._writers[0].append_and_wait
        began = sent = time.perf_counter()
        until = began + given.number("milliseconds") / 1e3
        while sent < until:
            await append(self._payload)
            now = time.perf_counter()
            latencies.append(now - sent)
            sent = now
        return _done(len(latencies), began, latencies)

    async def at_rate(self, given: protocol.Given) -> Answer:
        """Append what is due, over all ledgers in turn."""
        per_second = given.number("per_second")
        entries = per_second * given.number("milliseconds") // 1_000
        began = time.perf_counter()
        latencies = await loads.at_rate(
            self._writers, self._payload, per_second=per_second, entries=entries
        )
        return _done(len(latencies), began, latencies)

    async def keep(self, _: protocol.Given) -> Answer:
        """Close the ledgers, and keep them for reads."""
        entries = 0
        for writer in self._writers:
            await writer.close()
            entries += writer.last_confirmed + 1
            self._kept.append(writer.ledger_id)
        self._writers = []
        return {"entries": entries}

    async def finish(self, given: protocol.Given) -> Answer:
        """Close what is open, read all of it, delete it, and say how many entries there were."""
        await self.keep(given)
        entries, client = 0, self._needed()
        for ledger_id in self._kept:
            entries += await self._read_all(await client.open(ledger_id, recover=True))
            await client.delete(ledger_id)
        self._kept = []
        return {"entries": entries}

    async def catch_up(self, _: protocol.Given) -> Answer:
        """Read what is kept, from the first entry to the last."""
        began, entries = time.perf_counter(), 0
        for ledger_id in self._kept:
            entries += await self._read_all(await self._needed().open(ledger_id, recover=False))
        return _done(entries, began)

    async def random_reads(self, given: protocol.Given) -> Answer:
        """Read entries by chance, one at a time, perhaps beside appends at a rate."""
        chance, latencies = random.Random(1), list[float]()
        reader = await self._needed().open(self._kept[0], recover=False)
        async with our_lives.beside(self._needed(), self._bytes, given) as written:
            began = sent = time.perf_counter()
            until = began + given.number("milliseconds") / 1e3
            while sent < until:
                wanted = chance.randrange(reader.last_confirmed + 1)
                async for batch in reader.read(wanted, wanted):
                    self._compare(batch.entries[0].payload)
                now = time.perf_counter()
                latencies.append(now - sent)
                sent = now
            answer = _done(len(latencies), began, latencies)
        return {**answer, "written": written[0]}

    async def tail(self, given: protocol.Given) -> Answer:
        """Append at a rate, and follow: from the intended time until the follower has an entry."""
        per_second = given.number("per_second")
        entries = per_second * given.number("milliseconds") // 1_000
        writer, latencies = self._writers[0], list[float]()
        reader = await self._needed().open(writer.ledger_id, recover=False)
        following, began = reader.follow(1), time.perf_counter()

        async def follow() -> None:
            while len(latencies) < entries:
                found = await following.read_many(1_000)
                now = time.perf_counter()
                for entry in found:  # entry 0 is of `begin`; the last one is not waited for
                    if entry.entry_id <= entries:
                        latencies.append(now - began - (entry.entry_id - 1) / per_second)

        async with asyncio.TaskGroup() as group:
            group.create_task(follow())
            sent = 0
            while sent < entries + 1:
                due = int((time.perf_counter() - began) * per_second) + 1
                for _ in range(sent, min(due, entries + 1)):
                    await writer.append(self._payload)
                    sent += 1
                await asyncio.sleep(_TICK_S)
        await following.close()
        return {**_done(entries, began, latencies), "appended": entries + 1}

    async def create_close(self, given: protocol.Given) -> Answer:
        """Create ledgers and close them, so many at a time."""
        client = await self.client(given.number("window"))
        return await our_lives.create_close(client, given)

    async def recover(self, given: protocol.Given) -> Answer:
        """Open a ledger whose writer is gone, and read all of it."""
        self._payload = self._bytes[: given.number("size")]
        client = await self.client(given.number("window"))
        began, ledger_id = time.perf_counter(), LedgerId(given.number("ledger"))
        reader = await client.open(ledger_id, recover=True)
        last = reader.last_confirmed
        async for _ in reader.read(last, last):
            pass
        answer = _done(last + 1, began)
        if (found := await self._read_all(reader)) != last + 1:
            raise ValueError(f"{found} of {last + 1} recovered entries are readable")
        await client.delete(ledger_id)
        return answer

    async def write_for_ever(self, given: protocol.Given) -> Answer:
        """Append until the process is killed; say what is acknowledged now and then."""
        await self.begin(given)
        writer, said = self._writers[0], time.perf_counter()
        while True:
            await writer.append(self._payload)
            if time.perf_counter() - said > 0.1:
                said = time.perf_counter()
                protocol.say({"ledger": writer.ledger_id, "acked": writer.last_confirmed})

    async def sustain(self, given: protocol.Given) -> Answer:
        """Append at a rate for long; ledgers are rolled, and every second one is deleted."""
        client = await self.client(given.number("window"))
        return await our_lives.sustain(client, self._bytes[: given.number("size")], given)

    def _needed(self) -> Client:
        if self._client is None:
            raise ValueError("there is no ledger: begin one")
        return self._client

    async def _read_all(self, reader: Reader) -> int:
        found = 0
        async for batch in reader.read(EntryId(0), reader.last_confirmed):
            for entry in batch.entries:
                self._compare(entry.payload)
            found += len(batch)
        return found

    def _compare(self, found: bytes) -> None:
        if found != self._payload:
            raise ValueError("an entry differs from what was appended")


def _done(entries: int, began: float, latencies: list[float] | None = None) -> Answer:
    return our_lives.done(entries, began, latencies)


async def obey(address: str, config: ClientConfig, payload: bytes) -> None:
    """Obey lines until the last one."""
    async with AsyncExitStack() as ends:
        driver = OurDriver(address, config, payload, ends)
        protocol.say({"ready": True})
        while True:
            line = await asyncio.to_thread(sys.stdin.readline)
            verb, given = protocol.parse(line)
            if verb in ("", "end"):
                return
            answer: Mapping[str, object]
            try:
                answer = await driver.obey(verb, given)
            except Exception as error:  # noqa: BLE001 the answer says it, and the race judges it
                answer = {"error": f"{verb}: {error!r}"}
            protocol.say(answer)


def main() -> None:
    """Obey the lines of standard input."""
    address, way, payload, *tls = sys.argv[1:]
    files = None
    if tls:
        authority, certificate, key = map(Path, tls)
        files = TlsFiles(authority=authority, certificate=certificate, key=key)
    config = ClientConfig(way=BookieWay(way), tls=files)
    asyncio.run(obey(address, config, Path(payload).read_bytes()))


if __name__ == "__main__":
    main()
