"""Handshakes that are not finished: how many there may be, which one is next, which one goes.

Pure. A connection is *unfinished* until its peer has shaken hands. With TLS that is the end of
TLS's handshake, and without TLS it is the greeting. An unfinished connection comes, is ready once
its peer has sent what the handshake begins with, begins when ``next`` gives it, and leaves. Without
TLS none is ever ready: each only comes and leaves.

Strangers can come as fast as they like, so three things are bounded:

* Connections that have not begun (``waiting_max``). Above the limit the oldest one of the host that
  has the most goes. So a host with many makes room for a host with few, and honest peers take
  moments.
* Handshakes that have begun (``begun_max``): each takes a quarter of a MiB. At the limit the oldest
  one of the host that has the most goes, but only once it is ``stalled_s`` old. Until then nobody
  begins. So peers that come by the thousand at once do not throw each other out half-way.
* Handshakes that fail (``failed_per_s``). A handshake costs this side a millisecond of the event
  loop, in which no append is taken. Each begun one takes one of ``turns_max`` turns, and gives it
  back if it succeeds. A turn that was lost comes back after ``1 / failed_per_s`` seconds. So honest
  peers wait for nothing, however many come at once, and a flood of others is slowed.

Hosts that have ready connections alternate, so no host keeps another one waiting.
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

    #: Connections whose handshake has not begun; each is a descriptor and a KiB.
    waiting_max: int = 1_024
    #: Handshakes of TLS that have begun.
    begun_max: int = 64
    #: A handshake that began before this time may have to go for another one.
    stalled_s: float = 1.0
    #: Handshakes that fail, for as long as strangers go on; the first ``turns_max`` at once.
    failed_per_s: float = 50.0
    turns_max: int = 64


class _Crowd(Generic[One]):
    """Connections, by the hosts from which they come."""

    def __init__(self) -> None:
        #: Of each host the oldest first.
        self._by_host: dict[str, dict[One, None]] = {}
        self._host_of: dict[One, str] = {}

    def __len__(self) -> int:
        return len(self._host_of)

    def add(self, one: One, host: str) -> None:
        assert one not in self._host_of, "a connection comes once"
        self._host_of[one] = host
        self._by_host.setdefault(host, {})[one] = None

    def discard(self, one: One) -> str | None:
        """Take one out; give its host, or None if it is not here."""
        host = self._host_of.pop(one, None)
        if host is not None:
            del self._by_host[host][one]
            if not self._by_host[host]:
                del self._by_host[host]
        return host

    def host_of(self, one: One) -> str:
        return self._host_of[one]

    def first_to_go(self) -> One:
        """Give the oldest of the host that has the most; of hosts with as many, of the first."""
        fullest: dict[One, None] = max(self._by_host.values(), key=len)
        return next(iter(fullest))


class Handshakes(Generic[One]):
    """The unfinished handshakes of a port."""

    def __init__(self, limits: HandshakeLimits, now_s: float) -> None:
        assert min(limits.waiting_max, limits.begun_max, limits.turns_max) > 0
        self._limits = limits
        self._waiting: _Crowd[One] = _Crowd()
        self._begun: _Crowd[One] = _Crowd()
        self._begun_s: dict[One, float] = {}
        #: By host, those that are ready; the host that is next stands first.
        self._ready: OrderedDict[str, dict[One, None]] = OrderedDict()
        self._turns = float(limits.turns_max)
        self._counted_s = now_s

    def __len__(self) -> int:
        """Give the number of unfinished handshakes."""
        return len(self._waiting) + len(self._begun)

    def come(self, one: One, host: str) -> One | None:
        """Note a connection; give the one that must go for it, which has left already."""
        self._waiting.add(one, host)
        if len(self._waiting) <= self._limits.waiting_max:
            return None
        goes = self._waiting.first_to_go()
        self.leave(goes, succeeded=False)
        return goes

    def ready(self, one: One) -> None:
        """Note that a handshake can begin."""
        self._ready.setdefault(self._waiting.host_of(one), {})[one] = None

    def wait_s(self, now_s: float) -> float | None:
        """Say after which time ``next`` gives one; None: none is ready."""
        self._count(now_s)
        if not self._ready:
            return None
        missing = 1 - self._turns
        turn_s = 0.0 if missing <= _ROUNDING else missing / self._limits.failed_per_s
        if len(self._begun) < self._limits.begun_max:
            return turn_s
        stalled_s = self._begun_s[self._begun.first_to_go()] + self._limits.stalled_s
        return max(turn_s, stalled_s - now_s, 0.0)

    def next(self, now_s: float) -> tuple[One, One | None] | None:
        """Give the handshake that begins now, and the one that must go for it and has left already.

        None: ``wait_s`` is not 0.
        """
        if self.wait_s(now_s) != 0:
            return None
        goes: One | None = None
        if len(self._begun) >= self._limits.begun_max:
            goes = self._begun.first_to_go()
            self.leave(goes, succeeded=False)
        host, ready = self._ready.popitem(last=False)
        one = next(iter(ready))
        del ready[one]
        if ready:
            self._ready[host] = ready
        self._turns -= 1
        self._waiting.discard(one)
        self._begun.add(one, host)
        self._begun_s[one] = now_s
        return one, goes

    def leave(self, one: One, *, succeeded: bool) -> None:
        """Note that a handshake is over; a connection that is not here any more changes nothing."""
        if (host := self._waiting.discard(one)) is not None:
            if (ready := self._ready.get(host)) is not None:
                ready.pop(one, None)
                if not ready:
                    del self._ready[host]
        elif self._begun.discard(one) is not None:
            del self._begun_s[one]
            if succeeded:
                self._turns = min(self._turns + 1, float(self._limits.turns_max))

    def _count(self, now_s: float) -> None:
        """Give back the turns that have come back since the last look."""
        passed_s = max(0.0, now_s - self._counted_s)
        self._counted_s = now_s
        back = passed_s * self._limits.failed_per_s
        self._turns = min(self._turns + back, float(self._limits.turns_max))
