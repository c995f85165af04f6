"""The right to act: a process has it while it holds the Lease of every place that it serves.

The places are taken in their order, so two processes never wait for each other. A process that
loses one of them loses the right at once and for good, and ends.

Each act is begun by ``perform``, which asks right before the call. An act that has begun goes on
when its caller is cancelled. No Lease is given up before all of them have ended, so the next holder
meets no act of this one.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol, TypeVar

from zonekeeper.operator.kubernetes.api import Kubernetes
from zonekeeper.operator.lead import lease_objects
from zonekeeper.operator.lead.keeping_lease import LeaseClocks, LeaseKeeper, LeaseLostError
from zonekeeper.operator.lead.lease_objects import LeasePlace
from zonekeeper.operator.lead.tenure import LeaseTimes

#: ``give_up`` waits for so long for acts that have begun.
LAST_ACTS_MS_MAX: Final = 5_000

T = TypeVar("T")

_logger = logging.getLogger(__name__)


class Right(Protocol):
    """Says whether this process may act."""

    async def perform(self, act: Callable[[], Coroutine[object, object, T]]) -> T:
        """Begin an act and wait for its end; raises ``LeaseLostError`` if it may not begin."""
        ...


class Unrivalled:
    """The right of a process that is known to be the only one."""

    async def perform(self, act: Callable[[], Coroutine[object, object, T]]) -> T:
        """Do it."""
        return await act()


class ActingRight:
    """The right of one process to act, and what has become of it."""

    def __init__(
        self,
        kubernetes: Kubernetes,
        places: Sequence[LeasePlace],
        me: str,
        clocks: LeaseClocks,
        times: LeaseTimes | None = None,
    ) -> None:
        assert places, "a process serves at least one place"
        self.me = me
        self._keepers = tuple(
            LeaseKeeper(kubernetes, place, me, clocks, times or LeaseTimes()) for place in places
        )
        self._acts: set[asyncio.Task[object]] = set()
        #: The place that the process waits for, and its holder; None: it waits for none.
        self.waits_for: tuple[LeasePlace, str] | None = None

    def left_ms(self) -> int:
        """Give the time for which the process may act without another renewal; 0: it may not."""
        return min(keeper.left_ms() for keeper in self._keepers)

    @asynccontextmanager
    async def held(
        self, stands_by: Callable[[LeasePlace, str], Awaitable[None]]
    ) -> AsyncIterator[None]:
        """Stand by until the process may act, and keep the right until the block ends.

        ``stands_by`` is told of each place and holder that it waits for. If the right is lost, the
        block is cancelled, and a group with ``LeaseLostError`` is raised.
        """
        async with asyncio.TaskGroup() as tasks:

            def waits(keeper: LeaseKeeper, holder: str) -> None:
                self.waits_for = keeper.place, holder
                tasks.create_task(_told(stands_by(keeper.place, holder)))

            keeping = []
            for keeper in self._keepers:
                await keeper.take(lambda holder, keeper=keeper: waits(keeper, holder))  # type: ignore[misc] # bound per turn
                self.waits_for = None
                keeping.append(tasks.create_task(keeper.keep()))
            _logger.info("this process may act: it holds %s", self.words())
            yield
            for task in keeping:
                task.cancel()
        await self._give_up()

    def require(self) -> None:
        """Raise ``LeaseLostError`` if the process may not act at this moment."""
        if not self.left_ms():
            raise LeaseLostError(
                f"nothing was done: this process does not hold {self.words()}; "
                "the process that does will do it"
            )

    async def perform(self, act: Callable[[], Coroutine[object, object, T]]) -> T:
        """Begin an act, if the process may act at this moment, and wait for its end."""
        self.require()
        begun = asyncio.create_task(act())  # noqa: TID251 an act outlives its caller
        self._acts.add(begun)
        begun.add_done_callback(self._ended)
        return await asyncio.shield(begun)

    def words(self) -> str:
        """Name the Leases."""
        return "the Lease " + ", ".join(str(keeper.place) for keeper in self._keepers)

    def _ended(self, act: "asyncio.Task[object]") -> None:
        self._acts.discard(act)
        if not act.cancelled():
            act.exception()  # its caller may have been cancelled: then nobody else asks

    async def _give_up(self) -> None:
        if self._acts:
            await asyncio.wait(self._acts, timeout=LAST_ACTS_MS_MAX / 1_000)
        if self._acts:
            _logger.info("an act has not ended: %s is not given up, and runs out", self.words())
            return
        for keeper in reversed(self._keepers):
            await keeper.give_up()


async def _told(telling: Awaitable[None]) -> None:
    await telling


def is_of_another(holder: str, me: str) -> bool:
    """Is a holder of another installation than this process?"""
    return lease_objects.installation_of(holder) != lease_objects.installation_of(me)
