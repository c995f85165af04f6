"""Takes and keeps one Lease: reads and writes it as ``tenure`` says.

A call that gets no answer within ``CALL_MS_MAX`` counts as failed, and the next look tells what
came of it. The holder keeps its right to act until its time is over, so a short failure of the API
server changes nothing. At a long one it ends: then another process may take the Lease.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from zonekeeper.operator.kubernetes.api import (
    LEASES,
    Json,
    Kubernetes,
    KubernetesError,
    NotPermittedError,
)
from zonekeeper.operator.lead import lease_objects, tenure
from zonekeeper.operator.lead.lease_objects import LeasePlace
from zonekeeper.operator.lead.tenure import LeaseRecord, LeaseStep, LeaseTimes, Tenure
from zonekeeper.placement.base.troubles import Trouble

CALL_MS_MAX: Final = 4_000

_logger = logging.getLogger(__name__)


class LeaseLostError(Trouble):
    """This process is not, or not any more, the one that may act; nothing was done."""

    retryable = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseClocks:
    """The clocks that a Lease needs."""

    #: Never goes back, and counts while the machine sleeps.
    elapsed_ms: Callable[[], int]
    #: Wall time in UTC, for people who read the Lease.
    wall: Callable[[], datetime]


class LeaseKeeper:
    """One process's part in one Lease."""

    def __init__(
        self,
        kubernetes: Kubernetes,
        place: LeasePlace,
        me: str,
        clocks: LeaseClocks,
        times: LeaseTimes,
    ) -> None:
        self.place = place
        self.times = times
        self._kubernetes = kubernetes
        self._clocks = clocks
        self._tenure = Tenure(me=me)
        #: The last failure that was logged: one that lasts is logged once.
        self._told = ""

    @property
    def holder(self) -> str:
        """The holder that was read last; "": nobody."""
        return self._tenure.holder

    def left_ms(self) -> int:
        """Give the time for which this process may still act without another renewal."""
        return tenure.left_ms(self._tenure, self.times, self._clocks.elapsed_ms())

    async def take(self, stands_by: Callable[[str], None]) -> None:
        """Stand by until this process is the holder.

        ``stands_by`` is told of each holder that it waits for. Raises ``NotPermittedError``.
        """
        told = tenure.NOBODY
        while True:
            step = await self._look_and_write()
            if step in (LeaseStep.TAKE, LeaseStep.RENEW) and self.left_ms():
                return
            if step is LeaseStep.STAND_BY and self.holder != told:
                told = self.holder
                stands_by(told)
            await asyncio.sleep(self.times.again_ms / 1_000)

    async def keep(self) -> None:
        """Renew until it is lost; raises ``LeaseLostError`` then."""
        pause_ms = self.times.renew_ms
        while left_ms := self.left_ms():
            await asyncio.sleep(min(pause_ms, left_ms) / 1_000)
            step = await self._look_and_write()
            pause_ms = self.times.renew_ms if step is LeaseStep.RENEW else self.times.again_ms
        raise LeaseLostError(f"the Lease {self.place} is lost: {self._because()}")

    async def give_up(self) -> None:
        """Let another process take the Lease at once; the caller acts no more."""
        record = tenure.given_up(self._tenure)
        if record is None or not self.left_ms():
            return
        try:
            async with asyncio.timeout(CALL_MS_MAX / 1_000):
                item = await self._get()
                if item is not None and lease_objects.record_of(item) == self._tenure.seen:
                    await self._write(record, over=item)
        except (KubernetesError, TimeoutError) as error:
            _logger.info("the Lease %s was not given up: %s", self.place, error)
        self._tenure = Tenure(me=self._tenure.me)

    async def _look_and_write(self) -> LeaseStep | None:
        """Do one round; None: the API server gave no answer, or another one's write came first."""
        try:
            async with asyncio.timeout(CALL_MS_MAX / 1_000):
                return await self._round()
        except NotPermittedError:
            if self._tenure.held_from_ms is None:
                raise
            self._tell("the role of this operator allows it no more")
        except KubernetesError as error:
            self._tell(str(error))
        except TimeoutError:
            self._tell("the API server gives no answer")
        return None

    async def _round(self) -> LeaseStep:
        item = await self._get()
        found = None if item is None else lease_objects.record_of(item)
        now_ms = self._clocks.elapsed_ms()
        self._tenure = tenure.read(self._tenure, found, now_ms)
        step = tenure.step(self._tenure, self.times, now_ms)
        if step in (LeaseStep.TAKE, LeaseStep.RENEW):
            record = tenure.next_record(self._tenure)
            await self._write(record, over=item)
            self._tenure = tenure.written(self._tenure, record, begun_ms=now_ms)
        self._told = ""
        return step

    async def _get(self) -> Json | None:
        return await self._kubernetes.get(LEASES, self.place.namespace, self.place.name)

    async def _write(self, record: LeaseRecord, *, over: Json | None) -> None:
        now = self._clocks.wall().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        body = lease_objects.body(self.place, record, self.times, now=now, over=over)
        if over is None:
            await self._kubernetes.create(LEASES, body)
        else:
            await self._kubernetes.apply(LEASES, body)

    def _because(self) -> str:
        if self.holder != self._tenure.me:
            return f"{self.holder or 'nobody'} holds it now"
        return self._told or f"it was not renewed within {self.times.hold_ms / 1_000:g} s"

    def _tell(self, why: str) -> None:
        if why != self._told:
            _logger.warning("the Lease %s was not read or written: %s", self.place, why)
        self._told = why
