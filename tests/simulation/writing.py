"""Writers of a simulated cluster: one ledger after another, and each acknowledgement noted.

A ledger with deferred sync is acknowledged where its writer forces it, and no earlier: its writer
forces now and then, while it goes on to append, and what it never forced may be lost. Some writers
have their LAC told, so that readers who ask must hear of it.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from tests.simulation import history as seen
from tests.simulation.actors import AGAIN_MS, PASSWORD, Life
from zonekeeper.client import errors
from zonekeeper.client.writer import Writer
from zonekeeper.placement.ids import NO_ENTRY, EntryId

#: So long before everything heals writers begin nothing new: in calm weather, all is acknowledged.
_LAST_MS: Final = 300


async def write_ledgers(life: Life) -> None:
    """Write one ledger after another, then stay, as a zombie may."""
    habits = life.around.scenario.habits
    created = 0
    while created < habits.ledgers_max and not _is_late(life):
        # Chance is asked only where it matters: what a seed means elsewhere stays.
        deferred = habits.deferred > 0 and life.chance.random() < habits.deferred
        try:
            writer = await life.the_client.create(
                password=PASSWORD, quorums=life.around.scenario.quorums, deferred_sync=deferred
            )
        except errors.ClientError:
            await asyncio.sleep(AGAIN_MS / 1_000)
            continue
        created += 1
        life.observer.board.ledgers.append(writer.ledger_id)
        life.observer.board.writer = life.name
        await _Writing(life, writer, deferred=deferred).run()
    await asyncio.sleep(3_600)


def _is_late(life: Life) -> bool:
    return life.around.now_ms() >= life.around.scenario.chaos_ms - _LAST_MS


@dataclass(slots=True)
class _Writing:
    """One ledger: what is appended, and what its writer says of it."""

    life: Life
    writer: Writer
    deferred: bool
    _appended: asyncio.Event = field(default_factory=asyncio.Event)
    #: Acknowledged, and written down.
    _heard: EntryId = NO_ENTRY

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
                    linger_max_ms = life.around.scenario.habits.linger_max_ms
                    await asyncio.sleep(0.1 + life.chance.random() * linger_max_ms / 1_000)
                    self._look()
                    writer.halt()
            except errors.ClientError:
                writer.halt()
            finally:
                for task in others:
                    task.cancel()

    async def _append(self, tasks: asyncio.TaskGroup, others: "list[asyncio.Task[None]]") -> None:
        """Append in bursts, some of them waited for, some of them forced or told."""
        chance, habits = self.life.chance, self.life.around.scenario.habits
        for _ in range(chance.randint(1, habits.bursts_max)):
            if _is_late(self.life):
                return
            await self._burst(chance.randint(1, habits.entries_max))
            if chance.random() < 0.5:
                await self.writer.flush()
            if self.deferred and chance.random() < 0.6:
                force = tasks.create_task(self._force())
                others.append(force)
                if chance.random() < 0.5:
                    await asyncio.wait([force])
            if habits.told > 0 and chance.random() < habits.told:
                await self._tell()
            await asyncio.sleep(chance.random() ** 3 * habits.pause_max_ms / 1_000)

    async def _burst(self, entries: int) -> None:
        writer, life = self.writer, self.life
        for _ in range(entries):
            value = self._value()
            try:
                entry = writer.append_nowait(value)
            except errors.BudgetSpent:
                await writer.force()
                continue
            life.around.note(seen.Appended(ledger=writer.ledger_id, entry=entry, value=value))
            self._appended.set()
            if life.chance.random() < 0.2:
                await asyncio.sleep(life.chance.random() * 0.02)

    def _value(self) -> bytes:
        """Give an entry's payload: whose it is, and bytes that nobody else writes."""
        writer, life = self.writer, self.life
        which = f"{writer.ledger_id}/{writer.last_appended + 1}/{life.process.name}/"
        return which.encode() + life.chance.randbytes(
            life.chance.randrange(life.around.scenario.habits.payload_max)
        )

    async def _force(self) -> None:
        last = self.writer.last_appended
        with suppress(errors.ClientError):
            await self.writer.force()
            self._look()
            self.life.around.note(seen.Forced(ledger=self.writer.ledger_id, last=last))

    async def _tell(self) -> None:
        last = self.writer.last_confirmed
        with suppress(errors.LacNotTold):
            await self.writer.tell_confirmed()
            self.life.around.note(seen.Told(ledger=self.writer.ledger_id, last=last))

    async def _close(self) -> None:
        writer = self.writer
        await writer.close()
        self._look()
        note, ledger_id = self.life.around.note, writer.ledger_id
        note(seen.Forced(ledger=ledger_id, last=writer.last_appended))
        note(seen.ClosedByWriter(ledger=ledger_id, last=writer.last_confirmed))

    async def _listen(self) -> None:
        """Hear of each acknowledgement, as soon as the writer speaks of it, until it stops."""
        while True:
            while self._heard >= self.writer.last_appended:
                self._appended.clear()
                await self._appended.wait()
            try:
                await self.writer.flushed(EntryId(self._heard + 1))
            except errors.ClientError:
                return
            self._look()

    def _look(self) -> None:
        """Write down what is acknowledged by now."""
        first, last = EntryId(self._heard + 1), self.writer.last_confirmed
        if first > last:
            return
        ledger_id = self.writer.ledger_id
        copies = self.life.observer.copies(ledger_id, first, last)
        self.life.around.note(seen.Acked(ledger=ledger_id, first=first, last=last, copies=copies))
        self._heard = last
