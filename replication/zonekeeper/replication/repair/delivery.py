"""Bringing frames of a repair to one bookie: an ack means that the frame is on that bookie's disk.

The lane is opened when the first frame comes, with the fragment as it will be after the repair. It
is opened again when it is lost. A frame that may succeed at the same bookie is sent again, a few
times: a bookie accepts an entry that it has already when it is the same entry. Any other failure
means that the repair needs another bookie: ``TargetFailedError``.

All acks must come from one start of the bookie. A bookie that gets an empty disk goes into limbo
for the ledgers that name it, and this ledger does not name it yet. So a bookie that was started
again may lack, and deny, what it acknowledged before.
"""

import asyncio
from typing import Final

from zonekeeper.client.bookies.bookies import Bookies
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.wire.contract.links import AppendLane
from zonekeeper.wire.formats import errors
from zonekeeper.wire.formats.frames import Frame
from zonekeeper.wire.formats.openings import FragmentOpening

_ATTEMPTS_MAX: Final = 5
_PAUSE_FIRST_S: Final = 0.1


class TargetFailedError(Trouble):
    """A bookie does not take the copy; what it took so far may stay there."""

    def __init__(self, bookie: BookieId, error: errors.ProtocolError) -> None:
        super().__init__(f"{bookie} does not take the copy: {type(error).__name__}: {error}")
        self.bookie = bookie
        self.error = error


class _Outcomes:
    """The sink of a lane: one future for each frame."""

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[None]] = {}

    def expect(self, number: int) -> "asyncio.Future[None]":
        outcome = asyncio.get_running_loop().create_future()
        self._waiting[number] = outcome
        return outcome

    def acked(self, number: int) -> None:
        outcome = self._waiting.pop(number)
        if not outcome.done():
            outcome.set_result(None)

    def failed(self, number: int, error: errors.ProtocolError) -> None:
        outcome = self._waiting.pop(number)
        if not outcome.done():
            outcome.set_exception(error)

    def room(self) -> None:
        """Do nothing: ``put`` tries a frame that was refused for want of room after its pause."""


class Delivery:
    """The way of one fragment's frames to one bookie."""

    def __init__(self, bookies: Bookies, bookie: BookieId, opening: FragmentOpening) -> None:
        self.bookie: Final = bookie
        self._bookies = bookies
        self._opening = opening
        self._lane: AppendLane | None = None
        self._outcomes = _Outcomes()
        #: The start (boot epoch) that all acks come from; None: no lane was opened yet.
        self._boot_epoch: int | None = None

    async def put(self, frame: Frame) -> None:
        """Return once the frame is on the bookie's disk; raises ``TargetFailedError``."""
        pause_s = _PAUSE_FIRST_S
        for attempts_left in reversed(range(_ATTEMPTS_MAX)):
            try:
                lane = await self._open()
                await self._outcomes.expect(lane.append(frame))
            except errors.ProtocolError as error:
                if not error.retryable or attempts_left == 0:
                    self._bookies.suspect(self.bookie, error)
                    raise TargetFailedError(self.bookie, error) from error
                await asyncio.sleep(pause_s)
                pause_s *= 2
            else:
                return

    async def check_start(self) -> None:
        """Return if the bookie is still in the start that all acks come from, or none is needed.

        Raises ``TargetFailedError`` if the bookie was started again, or does not answer.
        """
        if self._boot_epoch is None:
            return
        try:
            info = await (await self._bookies.pool.link(self.bookie)).info()
        except errors.ProtocolError as error:
            raise TargetFailedError(self.bookie, error) from error
        self._check(info.boot_epoch, self._boot_epoch)

    def close(self) -> None:
        """Close the lane."""
        if self._lane is not None:
            self._lane.close()

    async def _open(self) -> AppendLane:
        if self._lane is not None and self._lane.alive:
            return self._lane
        outcomes = self._outcomes = _Outcomes()
        link = await self._bookies.pool.link(self.bookie)
        was_open = self._boot_epoch is not None
        self._lane = await link.open_fragment(self._opening, outcomes, was_open=was_open)
        if self._boot_epoch is None:
            self._boot_epoch = self._lane.boot_epoch
        self._check(self._lane.boot_epoch, self._boot_epoch)
        return self._lane

    def _check(self, now: int, before: int) -> None:
        if now != before:
            text = f"it took entries in its start {before} and is in {now} now"
            raise TargetFailedError(self.bookie, errors.StartedAgain(text))
