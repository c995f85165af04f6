"""Which process holds a Lease, as one of them knows it: (state, event) -> state, and a step. Pure.

A Lease is an object in Kubernetes that names its holder. Every write of it is bound to the version
that was read before, so of two writes only one counts. The holder renews it by a number that grows.
A process that *stands by* reads it again and again, and takes it in one of three cases: there is
none, the holder has given it up, or it has not changed for ``lease_ms``.

The invariant: at no moment do two processes hold the Lease. It follows from two times, and each is
counted on one machine alone:

- The holder counts from the moment at which it *began* its last write that is known to have
  counted, and is out of the right to act after ``hold_ms``.
- A process that stands by counts from the moment at which it has *read* a change, which is later
  than the begin of the write that made it, and takes the Lease after ``lease_ms``.

So what the clocks of two machines show does not matter. Their rates do, up to the ratio of the two
times. The clock must count also while a machine sleeps. A holder that was frozen learns nothing of
it by itself: it must ask ``may_act`` right before every act.

A Lease that a person has deleted is taken at once by a process that has just started. Until the
holder's next renewal there may be two then; each act is still bound to a version or a uid.
"""

import enum
from dataclasses import dataclass, replace
from typing import Final

#: The holder of a Lease that was given up.
NOBODY: Final = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """What a Lease says, as far as it decides."""

    holder: str
    #: Grows with each write. A process that stands by sees by it that the holder lives.
    renewals: int
    #: The number of times that the holder has changed.
    transitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """The times of a Lease; ``hold_ms`` < ``lease_ms``."""

    #: A process that stands by takes a Lease that has not changed for so long.
    lease_ms: int = 15_000
    #: The holder may act for so long after the begin of a write that counted.
    hold_ms: int = 10_000
    #: The holder writes so often.
    renew_ms: int = 3_000
    #: Any process reads so often while it stands by, or when a renewal has failed.
    again_ms: int = 1_000

    def __post_init__(self) -> None:
        assert 0 < self.again_ms <= self.renew_ms < self.hold_ms < self.lease_ms, self


class LeaseStep(enum.Enum):
    """What a process does about the Lease now."""

    #: Write it, as the new holder.
    TAKE = enum.auto()
    #: Write it again, as its holder.
    RENEW = enum.auto()
    #: Read it again later.
    STAND_BY = enum.auto()
    #: End: the process was the holder, and is so no more.
    END = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenure:
    """What one process knows of one Lease."""

    #: The name of this start of the process; no other start ever has it.
    me: str
    #: The Lease as it was read last; None: never, or there was none.
    seen: LeaseRecord | None = None
    #: When ``seen`` was read for the first time.
    since_ms: int = 0
    #: When the last write that counted was begun; None: this process was never the holder.
    held_from_ms: int | None = None

    @property
    def holder(self) -> str:
        """The holder that was read last; "": nobody."""
        return NOBODY if self.seen is None else self.seen.holder


def read(tenure: Tenure, found: LeaseRecord | None, now_ms: int) -> Tenure:
    """Take in what was read; None: there is no Lease.

    A Lease that was there and is gone counts as one that does not change any more.
    """
    if found is None or found == tenure.seen:
        return tenure
    return replace(tenure, seen=found, since_ms=now_ms)


def written(tenure: Tenure, made: LeaseRecord, *, begun_ms: int) -> Tenure:
    """Take in that a write has counted, which was begun then."""
    return replace(tenure, seen=made, since_ms=begun_ms, held_from_ms=begun_ms)


def next_record(tenure: Tenure) -> LeaseRecord:
    """Give what the process writes to take or renew the Lease."""
    seen = tenure.seen
    if seen is None:
        return LeaseRecord(holder=tenure.me, renewals=1, transitions=0)
    changes = seen.holder != tenure.me
    return LeaseRecord(
        holder=tenure.me, renewals=seen.renewals + 1, transitions=seen.transitions + changes
    )


def given_up(tenure: Tenure) -> LeaseRecord | None:
    """Give what the holder writes when it ends in order; None: it is not the holder."""
    if tenure.held_from_ms is None or tenure.holder != tenure.me:
        return None
    return replace(next_record(tenure), holder=NOBODY)


def may_act(tenure: Tenure, times: LeaseTimes, now_ms: int) -> bool:
    """Is the process the holder at this moment, for all that it knows?"""
    return left_ms(tenure, times, now_ms) > 0


def left_ms(tenure: Tenure, times: LeaseTimes, now_ms: int) -> int:
    """Give the time for which the process may still act without another renewal."""
    if tenure.held_from_ms is None or tenure.holder != tenure.me:
        return 0
    return max(tenure.held_from_ms + times.hold_ms - now_ms, 0)


def step(tenure: Tenure, times: LeaseTimes, now_ms: int) -> LeaseStep:
    """Decide after a look; the write must be bound to the version of this look."""
    if tenure.held_from_ms is not None:
        holds = may_act(tenure, times, now_ms)
        return LeaseStep.RENEW if holds else LeaseStep.END
    if tenure.holder == tenure.me:
        return LeaseStep.RENEW  # a write whose answer was lost has counted
    if tenure.holder == NOBODY or now_ms - tenure.since_ms >= times.lease_ms:
        return LeaseStep.TAKE
    return LeaseStep.STAND_BY
