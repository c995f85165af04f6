"""The time of the next attempt after failures: later each time, up to a limit.

The delay doubles with each failure in a row. The time that is really waited is a random part of the
delay, between half of it and all of it. So the clients of a bookie that comes back do not all
connect at the same moment.
"""

from zonekeeper.placement.base.chance import Chance


class BackOff:
    """The number of failures in a row, and the moment before which there is no next attempt."""

    __slots__ = ("_chance", "_first_s", "_max_s", "_next_s", "_not_before")

    def __init__(self, *, first_ms: int, max_ms: int, chance: Chance) -> None:
        assert 0 < first_ms <= max_ms
        self._first_s = first_ms / 1_000
        self._max_s = max_ms / 1_000
        self._chance = chance
        self._next_s = self._first_s
        self._not_before = 0.0

    def remaining_s(self, now_s: float) -> float:
        """Give the time that the next attempt must still wait; 0 if it need not wait."""
        return max(0.0, self._not_before - now_s)

    def failed(self, now_s: float) -> None:
        """Note that an attempt failed."""
        self._not_before = now_s + self._next_s * (0.5 + self._chance.random() / 2)
        self._next_s = min(2 * self._next_s, self._max_s)

    def succeeded(self) -> None:
        """Note that an attempt succeeded."""
        self._next_s = self._first_s
        self._not_before = 0.0
