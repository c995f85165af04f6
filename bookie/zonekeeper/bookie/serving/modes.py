"""Why a bookie is read-only, for which reasons and since when: a person's order, and conditions.

A person's order is kept by the disk, so a restart keeps it; since when it stands is known only to
the start that heard it. A condition, such as a full device, is of this start. Its text may change
while it lasts ("95.1% used"); the part before the colon names it, and it stands since that name
came.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from zonekeeper.bookie.storage.memory import Memory
from zonekeeper.metadata.formats.service_info import ReadOnlyReason

#: The one reason for being read-only that a restart keeps.
BY_PERSON: Final = "by a person's order"


_logger = logging.getLogger(__name__)


def _no_clock() -> None:
    return None


class Modes:
    """The reasons for which a bookie takes no plain appends; empty: it takes them."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        #: Why the bookie is read-only, besides a person's order.
        self.conditions: tuple[str, ...] = ()
        #: Gives the wall time. Set before the bookie serves; until then no time is known.
        self.wall_ms: Callable[[], int | None] = _no_clock
        #: By name: since when a reason stands. A reason that is not here is older than this start.
        self._since_ms: dict[str, int | None] = {}
        self._changed = asyncio.Event()

    @property
    def texts(self) -> tuple[str, ...]:
        """The reasons as texts; a person's order is the first."""
        by_person = (BY_PERSON,) if self._memory.read_only else ()
        return (*by_person, *self.conditions)

    @property
    def reasons(self) -> tuple[ReadOnlyReason, ...]:
        """The reasons as the bookie publishes them."""
        return tuple(
            ReadOnlyReason(
                reason=text, by_person=text == BY_PERSON, since_ms=self._since_ms.get(_name(text))
            )
            for text in self.texts
        )

    def set_conditions(self, texts: Sequence[str]) -> None:
        """Replace the conditions; one that stood before stands since then."""
        now_ms, before = self.wall_ms(), self._since_ms
        known = [_name(text) for text in self.conditions]
        self.conditions = tuple(texts)
        names = [_name(text) for text in self.conditions]
        if names != known:
            self._log()
        self._since_ms = {name: before.get(name, now_ms) for name in names}
        if BY_PERSON in before:
            self._since_ms[BY_PERSON] = before[BY_PERSON]
        self._changed.set()

    def person_told(self, *, was_read_only: bool) -> None:
        """Note that the disk has a person's order, whatever it says."""
        if not self._memory.read_only:
            self._since_ms.pop(BY_PERSON, None)
        elif not was_read_only:
            self._since_ms[BY_PERSON] = self.wall_ms()
        if self._memory.read_only is not was_read_only:
            self._log()
        self._changed.set()

    def _log(self) -> None:
        if self.texts:
            reason = "; ".join(self.texts)
            level = logging.WARNING if self.conditions else logging.INFO
            _logger.log(level, "read-only: %s", reason, extra={"reason": reason})
        else:
            _logger.info("takes entries again: nothing makes the bookie read-only any more")

    async def other_than(self, known: tuple[ReadOnlyReason, ...]) -> None:
        """Wait until the reasons are others than these."""
        await self.until(lambda: self.reasons != known)

    async def until(self, wanted: Callable[[], bool]) -> None:
        """Wait until something is so that follows from the reasons."""
        while not wanted():
            self._changed.clear()
            await self._changed.wait()


def _name(text: str) -> str:
    return text.partition(":")[0]
