"""Writers of a simulated cluster: one ledger after another, and each acknowledgement noted.

A process writes one to three ledgers at a time through one client. Each has a password, a kind of
digest and a label of its own. Some appends wait for room, where the client holds little; and some
entries are as large as several others.

A ledger with deferred sync is acknowledged where its writer forces it, and no earlier: its writer
forces now and then, while it goes on to append, and what it never forced may be lost. Some writers
have their LAC told, so that readers that ask must get it.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from tests.simulation import actors
from tests.simulation import history as seen
from tests.simulation.actors import AGAIN_MS, Life
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import errors
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId

#: So long before everything heals writers begin nothing new: in calm weather, all is acknowledged.
_LAST_MS: Final = 300

#: How many ledgers a process writes at a time.
_AT_ONCE: Final = (1, 1, 2, 3)
_DIGESTS: Final = (Digest.CRC32C, Digest.CRC32C, Digest.CRC32, Digest.HMAC)
#: Under this name a ledger has its writer's; only the checker looks.
_LABEL: Final = "written by"
#: A large entry is as large as so many others, at most, and takes their place.
_LARGE_AS: Final = 10


@dataclass(slots=True)
class _Plan:
    """How many ledgers a process still creates, and how many it writes at a time.

    With more at a time each of them gets less often its turn: it is about as much work.
    """

    ledgers: int
    at_once: int


async def write_ledgers(life: Life) -> None:
    """Write one ledger after another, then stay, as a zombie may."""
    plan = _Plan(life.around.scenario.habits.ledgers_max, life.chance.choice(_AT_ONCE))
    async with asyncio.TaskGroup() as tasks:
        for _ in range(plan.at_once):
            tasks.create_task(_write_in_turn(life, plan))
    await asyncio.sleep(3_600)


async def _write_in_turn(life: Life, plan: _Plan) -> None:
    habits = life.around.scenario.habits
    while plan.ledgers and not _is_late(life):
        plan.ledgers -= 1
        deferred = life.chance.random() < habits.deferred
        try:
            writer = await _create(life, deferred=deferred)
        except errors.ClientError as error:
            actors.note_failed(life.around, life.process.name, None, error)
            plan.ledgers += 1
            await asyncio.sleep(AGAIN_MS / 1_000)
            continue
        life.observer.board.ledgers.append(writer.ledger_id)
        life.observer.board.writer = life.name
        under_way = life.observer.board.under_way
        under_way.append(writer.ledger_id)
        try:
            await _Writing(life, writer, plan.at_once, deferred=deferred).run()
        finally:
            under_way.remove(writer.ledger_id)


async def _create(life: Life, *, deferred: bool) -> Writer:
    """Create a ledger, and note what it was to be."""
    password, digest = life.chance.randbytes(life.chance.randrange(9)), life.chance.choice(_DIGESTS)
    custom = {_LABEL: life.process.name.encode()}
    writer = await life.the_client.create(
        password=password,
        quorums=life.around.scenario.quorums,
        digest=digest,
        custom=custom,
        deferred_sync=deferred,
    )
    life.around.note(
        seen.Created(
            ledger=writer.ledger_id,
            password=password,
            digest=digest,
            custom=tuple(custom.items()),
        )
    )
    return writer


def _is_late(life: Life) -> bool:
    return life.around.now_ms() >= life.around.scenario.chaos_ms - _LAST_MS


@dataclass(slots=True)
class _Writing:
    """One ledger: what is appended, and what its writer says of it."""

    life: Life
    writer: Writer
    at_once: int
    deferred: bool
    _appended: asyncio.Event = field(default_factory=asyncio.Event)
    #: Acknowledged, and written down.
    _heard: EntryId = NO_ENTRY
    #: How much may still be appended: in entries of the usual size.
    _left: int = 0

    async def run(self) -> None:
        """Append, then close, or die after a while."""
        writer, life = self.writer, self.life
        async with asyncio.TaskGroup() as tasks:
            others = [] if self.deferred else [tasks.create_task(self._listen())]
            try:
                await self._append(tasks, others)
                if life.chance.random() < 0.5:
                    await self._close()
                else:
                    linger_max_ms = life.around.scenario.habits.linger_max_ms * self.at_once
                    await asyncio.sleep(0.1 + life.chance.random() * linger_max_ms / 1_000)
                    self._look()
                    writer.halt()
            except errors.ClientError as error:
                actors.note_failed(life.around, life.process.name, writer.ledger_id, error)
                writer.halt()
            finally:
                for task in others:
                    task.cancel()

    async def _append(self, tasks: asyncio.TaskGroup, others: "list[asyncio.Task[None]]") -> None:
        """Append in bursts, some of them waited for, some of them forced or told."""
        chance, habits = self.life.chance, self.life.around.scenario.habits
        bursts = chance.randint(1, habits.bursts_max)
        self._left = bursts * habits.entries_max
        for _ in range(bursts):
            if _is_late(self.life):
                return
            await self._burst(chance.randint(1, habits.entries_max))
            if chance.random() < 0.5:
                await self._flush()
            if self.deferred and chance.random() < 0.6:
                force = tasks.create_task(self._force())
                others.append(force)
                if chance.random() < 0.5:
                    await asyncio.wait([force])
            if habits.told > 0 and chance.random() < habits.told:
                await self._tell()
            pause_max_ms = habits.pause_max_ms * self.at_once
            await asyncio.sleep(chance.random() ** 3 * pause_max_ms / 1_000)

    async def _burst(self, entries: int) -> None:
        """Append some entries; where there is no room, wait for it, or have it made."""
        writer, chance = self.writer, self.life.chance
        for _ in range(entries):
            value = self._value()
            if value is None:
                return
            try:
                entry = writer.append_nowait(value)
            except errors.BudgetSpent:
                if chance.random() < 0.3:
                    await writer.force()
                    continue
                entry = await writer.append(value)
            self.life.around.note(seen.Appended(ledger=writer.ledger_id, entry=entry, value=value))
            self._appended.set()
            if chance.random() < 0.2:
                await asyncio.sleep(chance.random() * 0.02)

    def _value(self) -> bytes | None:
        """Give an entry's payload: its writer and place, and bytes that no other writer writes.

        None: the ledger is as large as it may get.
        """
        writer, life = self.writer, self.life
        size = 1 if life.chance.random() < 0.9 else life.chance.randint(1, _LARGE_AS)
        if size > self._left:
            return None
        self._left -= size
        which = f"{writer.ledger_id}/{writer.last_appended + 1}/{life.process.name}/"
        return which.encode() + life.chance.randbytes(
            life.chance.randrange(size * life.around.scenario.habits.payload_max)
        )

    async def _flush(self) -> None:
        last = self.writer.last_appended
        await self.writer.flush()
        if not self.deferred:
            self._promised(last)

    async def _force(self) -> None:
        last = self.writer.last_appended
        try:
            await self.writer.force()
        except errors.ClientError as error:
            actors.note_failed(
                self.life.around, self.life.process.name, self.writer.ledger_id, error
            )
        else:
            self._promised(last)

    async def _tell(self) -> None:
        last = self.writer.last_confirmed
        with suppress(errors.LacNotTold):
            await self.writer.tell_confirmed()
            self.life.around.note(seen.Told(ledger=self.writer.ledger_id, last=last))

    async def _close(self) -> None:
        writer = self.writer
        await writer.close()
        self._promised(writer.last_appended)
        self.life.around.note(
            seen.ClosedByWriter(ledger=writer.ledger_id, last=writer.last_confirmed)
        )

    async def _listen(self) -> None:
        """Hear of each acknowledgement, as soon as the writer speaks of it, until it stops."""
        while True:
            while self._heard >= self.writer.last_appended:
                self._appended.clear()
                await self._appended.wait()
            wanted = EntryId(self._heard + 1)
            try:
                await self.writer.flushed(wanted)
            except errors.ClientError:
                return  # the appending task hears of it, too
            self._promised(wanted)
            if self._heard < wanted:
                return

    def _promised(self, last: EntryId) -> None:
        """Write down that a wait is over: all up to an entry is said to be acknowledged."""
        self._look()
        self.life.around.note(seen.Forced(ledger=self.writer.ledger_id, last=last))

    def _look(self) -> None:
        """Write down what is acknowledged by now."""
        first, last = EntryId(self._heard + 1), self.writer.last_confirmed
        if first > last:
            return
        ledger_id = self.writer.ledger_id
        copies = self.life.observer.copies(ledger_id, first, last)
        self.life.around.note(seen.Acked(ledger=ledger_id, first=first, last=last, copies=copies))
        self._heard = last
