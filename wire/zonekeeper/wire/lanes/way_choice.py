"""Over what a link reaches its bookie that offers the socket lane: the lane, or gRPC.

::

                 a stream or call was not reached over the lane, and was over gRPC
        OPEN ------------------------------------------------------------> BLOCKED
          ^  <------------------------------------------------------------   |  ^
          |            a probe reached the lane                              +--+ a probe did not
          |                                                          (later each time)
          +--- a probe found that a later start of the bookie has one --- ABSENT

In ``OPEN`` each new stream and call tries the lane first. In ``BLOCKED`` all goes over gRPC at
once, so no caller waits for a lane that is not reached. A probe tries it beside them when its time
has come. In ``ABSENT`` the bookie has registered no lane; only another start of it can have one.

A lane is only blamed where gRPC was reached instead. A bookie that is down blocks nothing. What was
begun before the last change of the state says nothing about the present one, so two attempts that
fail at the same time count once.

The pause before a probe doubles with each block and each probe that fails. It begins anew after a
stream over the lane, and after another start of the bookie. A probe alone does not end it: it makes
one connection, and something may let that one pass and no others.
"""

import enum
from typing import Final

from zonekeeper.wire.lanes.back_off import BackOff

#: The pause before the first probe of a lane, and the longest one.
PROBE_FIRST_MS: Final = 1_000
PROBE_MAX_MS: Final = 60_000


class WayState(enum.Enum):
    """What is known of a bookie's lane."""

    OPEN = "open"
    BLOCKED = "blocked"
    ABSENT = "absent"


class WayChoice:
    """The choice for one bookie."""

    __slots__ = ("_back_off", "_boot_epoch", "_is_other_start", "_is_probing", "_number", "state")

    def __init__(self, *, is_offered: bool, boot_epoch: int | None, back_off: BackOff) -> None:
        self.state = WayState.OPEN if is_offered else WayState.ABSENT
        #: The start of the bookie that was heard or read of last; None: of none.
        self._boot_epoch = boot_epoch
        self._back_off = back_off
        #: Was another start heard of, whose registration was not read yet?
        self._is_other_start = False
        self._is_probing = False
        #: Counts the changes of the state; the attempts of one state have the same number.
        self._number = 0

    def attempt(self) -> int | None:
        """Give the number of an attempt over the lane; None: use gRPC."""
        return self._number if self.state is WayState.OPEN else None

    def reached(self, attempt: int) -> None:
        """Note that a stream was made over the lane."""
        if attempt == self._number:
            self._back_off.succeeded()

    def blocked(self, attempt: int, now_s: float) -> bool:
        """Note that the lane was not reached, and gRPC was; say whether this is news."""
        if attempt != self._number:
            return False
        self._become(WayState.BLOCKED)
        self._back_off.failed(now_s)
        return True

    def started(self, boot_epoch: int) -> None:
        """Note which start of the bookie answers."""
        if boot_epoch != self._boot_epoch:
            self._is_other_start = self._boot_epoch is not None
            self._boot_epoch = boot_epoch
            if self._is_other_start:
                self._back_off.succeeded()

    def probe(self, now_s: float) -> bool:
        """Say whether to probe now; then ``probed`` or ``given_up`` must follow."""
        waits = self.state is WayState.BLOCKED or (
            self.state is WayState.ABSENT and self._is_other_start
        )
        if not waits or self._is_probing or self._back_off.remaining_s(now_s) > 0:
            return False
        self._is_probing = True
        return True

    def looked(self, *, is_offered: bool, boot_epoch: int | None) -> bool:
        """Note what the bookie registers now, as a probe has read it; say whether it counts.

        The registration of an earlier start than the one that was heard says nothing of that one.
        """
        if boot_epoch is not None:
            if self._boot_epoch is not None and boot_epoch < self._boot_epoch:
                return False
            self._boot_epoch = boot_epoch
        self._is_other_start = False
        if not is_offered:
            self._become(WayState.ABSENT)
        elif self.state is WayState.ABSENT:
            self._become(WayState.BLOCKED)
        return True

    def probed(self, *, is_reached: bool, now_s: float) -> bool:
        """Note what came of a probe; say whether the lane may be used from now on."""
        self._is_probing = False
        if is_reached and self.state is WayState.BLOCKED:
            self._become(WayState.OPEN)
            return True
        self._back_off.failed(now_s)
        return False

    def _become(self, state: WayState) -> None:
        if state is not self.state:
            self.state = state
            self._number += 1
