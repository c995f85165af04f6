"""A bookie tells the timeline when conditions of its own make it read-only, and when they end.

A person's order is an event that the person's command writes. A condition (a full device, a failed
directory) has nobody who writes for it, so the bookie does.

A bookie that flaps must not flood the timeline, which keeps a thousand events. So after an event
the bookie tells nothing for ``QUIET_MS``. Then it tells, in one event, how it is now and how often
that changed meanwhile. While it goes on to flap, the time doubles up to ``QUIET_MS_MAX``: a bookie
that flaps for a day writes some thirty events, however fast it flaps. A time of ``QUIET_MS_MAX``
without a change ends that. A restart goes on from the last event of this bookie among the newest
``LOOKED_AT_MAX``: a bookie that is started again and again with a full device does not tell it
again and again.

``Teller`` decides; ``ModeTelling`` carries it out. An event that cannot be written is tried again
when the next one may be written. Nothing waits for it.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from zonekeeper.bookie.serving.modes import Modes
from zonekeeper.metadata.cluster import timeline
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.timeline import Event
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.units import HOUR_MS, MINUTE_MS

READ_ONLY: Final = "read-only"
WRITABLE: Final = "writable"
QUIET_MS: Final = 10 * MINUTE_MS
QUIET_MS_MAX: Final = HOUR_MS
LOOKED_AT_MAX: Final = 50
REASON_CHARS_MAX: Final = 500

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Teller:
    """What was told last and when; ``QUIET_MS <= quiet_ms <= QUIET_MS_MAX``."""

    #: Was the bookie last told to be read-only for conditions of its own?
    told: bool = False
    told_ms: int | None = None
    quiet_ms: int = QUIET_MS
    #: How it is now, and how often that changed since it was told.
    now: bool = False
    changes: int = 0

    def seen(self, read_only: bool) -> None:
        """Note how the bookie is now."""
        if read_only is not self.now:
            self.now = read_only
            self.changes += 1

    def due_ms(self) -> int | None:
        """Give when there is something to tell; None: there is nothing."""
        if not self.changes and self.now is self.told:
            return None
        return 0 if self.told_ms is None else self.told_ms + self.quiet_ms

    def tell(self, now_ms: int) -> None:
        """Note that the present state is told now, or that this was tried."""
        if self.told_ms is not None:
            calm = now_ms - self.told_ms >= QUIET_MS_MAX + self.quiet_ms
            self.quiet_ms = QUIET_MS if calm else min(2 * self.quiet_ms, QUIET_MS_MAX)
        self.told, self.told_ms = self.now, now_ms
        self.changes = 0


class ModeTelling:
    """Follows the modes of a bookie, and writes the events that ``Teller`` decides."""

    def __init__(
        self,
        cluster: Cluster,
        bookie: BookieId,
        modes: Modes,
        *,
        boot_epoch: int,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
    ) -> None:
        """``now_ms`` never goes back."""
        self._cluster = cluster
        self._bookie = bookie
        self._modes = modes
        self._boot_epoch = boot_epoch
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self._teller = Teller()
        self._written = 0
        self._last_conditions: tuple[str, ...] = ()

    async def run(self, looked: asyncio.Event) -> None:
        """Tell until cancelled; ``looked``: the conditions are known only when it is set."""
        await looked.wait()
        await self._remember()
        while True:
            self._look()
            due_ms = self._teller.due_ms()
            wait_ms = None if due_ms is None else max(0, due_ms - self._now_ms())
            if wait_ms == 0:
                await self._tell()
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(None if wait_ms is None else wait_ms / 1000):
                    await self._modes.until(self._has_changed)

    def _has_changed(self) -> bool:
        return bool(self._modes.conditions) is not self._teller.now

    def _look(self) -> None:
        if self._modes.conditions:
            self._last_conditions = self._modes.conditions
        self._teller.seen(bool(self._modes.conditions))

    async def _remember(self) -> None:
        """Go on from the last event of an earlier start, if it is among the newest."""
        try:
            newest = await timeline.newest(self._cluster, limit=LOOKED_AT_MAX)
        except StoreError as error:
            _logger.warning("the timeline cannot be read now: %s", error)
            return
        for event in newest:
            mine = (event.by, event.subject) == (self._bookie, self._subject)
            if mine and event.kind in (READ_ONLY, WRITABLE):
                ago_ms = max(0, self._wall_ms() - event.at_ms)
                self._teller.told = self._teller.now = event.kind == READ_ONLY
                self._teller.told_ms = self._now_ms() - ago_ms
                # Until the first look it is not known how the bookie is: that is no change.
                self._teller.now = bool(self._modes.conditions)
                return

    async def _tell(self) -> None:
        teller = self._teller
        changes = teller.changes
        event = self._event(changes)
        teller.tell(self._now_ms())
        try:
            await timeline.append(self._cluster, event)
        except StoreError as error:
            _logger.warning("the timeline may lack %r of %s: %s", event.kind, self._bookie, error)
            teller.changes += changes  # it is told with the next event
        else:
            self._written += 1

    def _event(self, changes: int) -> Event:
        reason = "; ".join(self._last_conditions) or "a condition of an earlier start"
        if not self._teller.now:
            reason = f"over: {reason}"
            if self._modes.texts:
                reason += f"; read-only still {', '.join(self._modes.texts)}"
        if changes > 1:
            reason = f"changed {changes} times since it was told; {reason}"
        return Event(
            at_ms=self._wall_ms(),
            kind=READ_ONLY if self._modes.texts else WRITABLE,
            subject=self._subject,
            by=self._bookie,
            reason=reason[:REASON_CHARS_MAX],
            # Starts are counted, so no other event of any start has this name.
            token=f"mode-{self._bookie}-{self._boot_epoch}-{self._written}-{self._now_ms()}",
        )

    @property
    def _subject(self) -> str:
        return f"bookie {self._bookie}"
