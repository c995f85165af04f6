"""The capacity of a bookie: why a request is refused for reasons outside its ledger.

Bytes that wait for the disk, or to be compared, have a limit; so have known ledgers, and the hints
of all ledgers (``ledgers.hints``). Plain appends leave room on the device that recoveries, and
records that make room, may use (``Log.has_room``). A record that makes the next checkpoint larger
must leave room for that (``outgrowing``).

A few ledgers with many fragments must not take the room for hints from the others. So beyond the
limit for all, a ledger still gets its own share, ``HINT_BYTES_A_LEDGER``. The hints of a bookie
take at most ``hint_bytes_max``, and once more that share for each ledger that it may know.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Final

from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.ledgers.records import LedgerRecord
from zonekeeper.bookie.storage.ledgers import Ledger
from zonekeeper.bookie.storage.storage import Storage
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.wire.formats import errors
from zonekeeper.wire.formats.frames import Frame

#: The room for hints of which no other ledger takes anything: some fragments of usual ensembles.
HINT_BYTES_A_LEDGER: Final = 1 << 10
#: A bookie has room for so many bytes of hints, however few ledgers it may know.
HINT_BYTES_MIN: Final = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieLimits:
    """The limits of what a bookie accepts."""

    #: The most bytes of appends that wait for the disk; more are refused with TooManyRequests.
    waiting_bytes_max: int = 256 << 20
    #: The most known ledgers, each of which takes memory. More are refused with TooManyRequests.
    ledgers_max: int = 1_000_000

    @property
    def hint_bytes_max(self) -> int:
        """The most bytes of the hints of all ledgers; see the module."""
        return max(HINT_BYTES_MIN, self.ledgers_max * HINT_BYTES_A_LEDGER)


def begin(tasks: asyncio.TaskGroup, work: Coroutine[object, None, None]) -> bool:
    """Begin work in a task of its own; False: the bookie ends, and begins nothing.

    A disk that fails, for example, ends all tasks at once. Peers are heard until the server stops.
    """
    try:
        tasks.create_task(work)
    except RuntimeError:  # the group is being cancelled; it does not say so otherwise
        work.close()
        return False
    return True


class Capacity:
    """What a bookie has room for, now."""

    def __init__(
        self,
        bookie: BookieId,
        storage: Storage,
        limits: BookieLimits,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._bookie = bookie
        self._storage = storage
        self._log = storage.log
        self._memory = storage.memory
        self._limits = limits
        self._tasks = tasks
        self._measuring = False
        #: Bytes of frames that are being compared with entries that are here.
        self.held_bytes = 0

    def cramped(self, record: LedgerRecord | Frame, *, urgent: bool) -> errors.ProtocolError | None:
        """Say why there is no room for a record; None: there is."""
        if self._log.has_room(record, urgent=urgent):
            return None
        self._measure_soon()
        return errors.InsufficientSpace(
            f"{self._bookie}: {self._log.space.free_bytes} bytes are free, too few beside "
            "the reserve; make room on its disk, or write to another bookie"
        )

    def outgrowing(self, ledger: Ledger, record: LedgerRecord) -> errors.ProtocolError | None:
        """Say why the next checkpoint has no room for what a record adds to it; None: it has."""
        growth_bytes = self._memory.growth_bytes(ledger, record)
        is_known = ledger.ledger_id in self._memory.ledgers
        if not growth_bytes or self._log.has_room_for_growth(
            record, growth_bytes, is_known=is_known
        ):
            return None
        self._measure_soon()
        return errors.InsufficientSpace(
            f"{self._bookie}: {self._storage.checkpoint_room_bytes} bytes are kept free for its "
            f"checkpoint, and there is no room for {growth_bytes} more of ledger "
            f"{ledger.ledger_id}; make room on the disk of --data, or write to another bookie"
        )

    def flooded(self, size_bytes: int) -> errors.ProtocolError | None:
        """Say why ``size_bytes`` more may not wait for the disk; None: they may."""
        waiting = self._log.waiting_bytes + self.held_bytes
        most = self._limits.waiting_bytes_max
        if waiting + size_bytes <= most:
            return None
        return errors.TooManyRequests(
            f"{self._bookie}: {waiting} bytes wait for the disk or to be compared, the limit is "
            f"{most}"
        )

    def crowded(self, ledger_id: LedgerId) -> errors.ProtocolError | None:
        """Say why an unknown ledger may not be remembered; None: it may, or is known."""
        ledgers, most = self._memory.ledgers, self._limits.ledgers_max
        if len(ledgers) < most or ledger_id in ledgers:
            return None
        return errors.TooManyRequests(
            f"{self._bookie} knows {len(ledgers)} ledgers, --ledgers is {most}: delete some, "
            "raise it, or add bookies"
        )

    def talkative(self, ledger: Ledger, record: LedgerRecord) -> errors.ProtocolError | None:
        """Say why the bookie keeps no more hints of a ledger; None: it may, or it is told none."""
        before = ledger.admitted.hint_bytes
        added = admission.applied(ledger.admitted, record).hint_bytes - before
        taken, most = self._memory.hint_bytes, self._limits.hint_bytes_max
        if not added or taken + added <= most or before + added <= HINT_BYTES_A_LEDGER:
            return None
        return errors.TooManyRequests(
            f"{self._bookie}: what writers told of fragments takes {taken} bytes, the limit for "
            f"{self._limits.ledgers_max} --ledgers is {most}: delete ledgers, raise --ledgers, or "
            "write to another bookie"
        )

    def _measure_soon(self) -> None:
        async def measure() -> None:
            try:
                await self._storage.measure()
            finally:
                self._measuring = False

        if not self._measuring:
            self._measuring = begin(self._tasks, measure())
