"""Handshakes that are not finished: how many there may be, which one is next, which one goes.

Pure. A connection is *unfinished* until its peer has shaken hands. With TLS that is the end of
TLS's handshake, and without TLS it is the greeting. An unfinished connection comes, is ready once
its peer has sent what the handshake begins with, begins when ``next`` gives it, and leaves.

Strangers can come as fast as they like, so three things are bounded:

* All unfinished connections (``unfinished_max``). Above the limit the oldest one of the host that
  has the most goes. So a host with many makes room for a host with few, and honest peers take
  moments.
* Those of them that have begun (``begun_max``), in the same way: each takes a quarter of a MiB.
* Handshakes that fail (``failed_per_s``). A handshake costs this side a millisecond of the event
  loop, in which no append is taken. Each begun one takes a turn of ``turns_max``, and gives it back
  if it succeeds. A turn that was lost comes back after ``1 / failed_per_s`` seconds. So thousands
  of honest peers that come at once wait for nothing, and a flood of others is slowed.

Hosts that have ready connections take turns, so no host keeps another one waiting.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

One = TypeVar("One")
#: Turns are counted in floats: a turn that came back may be short of one by a rounding error.
_ROUNDING: Final = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeLimits:
    """The limits of a port's unfinished handshakes."""

    #: Connections whose peers have not shaken hands; each is a descriptor and a KiB.
    unfinished_max: int = 1_024
    #: Handshakes of TLS that have begun.
    begun_max: int = 64
    #: Handshakes that fail, for as long as strangers go on; the first ``turns_max`` at once.
    failed_per_s: float = 50
    turns_max: int = 64


class _Crowd(Generic[One]):
    """A bounded number of connections, by the hosts from which they come."""

    def __init__(self, most: int) -> None:
        assert most > 0
        self._most = most
        #: Of each host the oldest first.
        self._by_host: dict[str, dict[One, None]] = {}
        self._host_of: dict[One, str] = {}

    def __len__(self) -> int:
        return len(self._host_of)

    def __contains__(self, one: One) -> bool:
        return one in self._host_of

    def host_of(self, one: One) -> str:
        return self._host_of[one]

    def add(self, one: One, host: str) -> One | None:
        """Add one; give the one that must go for it."""
        assert one not in self._host_of
        self._host_of[one] = host
        self._by_host.setdefault(host, {})[one] = None
        if len(self._host_of) <= self._most:
            return None
        # Of hosts with as many, the one that is here for the longest time.
        fullest = max(self._by_host.values(), key=len)
        return next(iter(fullest))

    def discard(self, one: One) -> None:
        host = self._host_of.pop(one, None)
        if host is not None:
            del self._by_host[host][one]
            if not self._by_host[host]:
                del self._by_host[host]


class Handshakes(Generic[One]):
    """The unfinished handshakes of a port."""

    def __init__(self, limits: HandshakeLimits, now_s: float) -> None:
        self._limits = limits
        self._all: _Crowd[One] = _Crowd(limits.unfinished_max)
        self._begun: _Crowd[One] = _Crowd(limits.begun_max)
        #: By host, those that are ready; the host whose turn it is stands first.
        self._ready: OrderedDict[str, dict[One, None]] = OrderedDict()
        self._turns = float(limits.turns_max)
        self._counted_s = now_s

    def __len__(self) -> int:
        """Give the number of unfinished handshakes."""
        return len(self._all)

    def come(self, one: One, host: str) -> One | None:
        """Note a connection; give the one that must leave for it: the caller ends that one."""
        return self._all.add(one, host)

    def ready(self, one: One) -> None:
        """Note that a handshake can begin."""
        self._ready.setdefault(self._all.host_of(one), {})[one] = None

    def next(self, now_s: float) -> tuple[One, One | None] | None:
        """Give the handshake that begins now, and the one that must leave for it.

        None: none is ready, or there is no turn yet.
        """
        self._count(now_s)
        if not self._ready or self._turns < 1 - _ROUNDING:
            return None
        host, waiting = self._ready.popitem(last=False)
        one = next(iter(waiting))
        del waiting[one]
        if waiting:
            self._ready[host] = waiting
        self._turns -= 1
        return one, self._begun.add(one, host)

    def wait_s(self, now_s: float) -> float | None:
        """Say after which time ``next`` gives one; None: none is ready."""
        self._count(now_s)
        if not self._ready:
            return None
        return max(0.0, 1 - self._turns) / self._limits.failed_per_s

    def leave(self, one: One, *, succeeded: bool) -> None:
        """Note that a handshake is over; a connection that is not here any more changes nothing."""
        if one not in self._all:
            return
        host = self._all.host_of(one)
        self._all.discard(one)
        if one in self._begun and succeeded:
            self._turns = min(self._turns + 1, self._limits.turns_max)
        self._begun.discard(one)
        if (waiting := self._ready.get(host)) is not None:
            waiting.pop(one, None)
            if not waiting:
                del self._ready[host]

    def _count(self, now_s: float) -> None:
        """Give back the turns that have come back since the last look."""
        passed_s = max(0.0, now_s - self._counted_s)
        self._counted_s = now_s
        back = passed_s * self._limits.failed_per_s
        self._turns = min(self._turns + back, float(self._limits.turns_max))
