"""A limit of a log's lines: no place in the code floods the log, whatever happens to the process.

A *place* is a line of the code that logs. In ``WINDOW_S`` seconds from its first line a place
writes at most ``LINES_MAX`` lines. The others are counted. After the window one line says how many
there were. So an outage that fails 10,000 ledgers in a minute leaves 20 lines of each kind, and the
number of the rest.

The number is told with the next record of any kind after the window, or at the end of the process.
Until then it is not in the log: the limit has no timer. Pure; ``logs`` carries it out.
"""

from dataclasses import dataclass
from typing import Final

LINES_MAX: Final = 20
WINDOW_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinePlace:
    """A line of the code that logs, and how it logs."""

    logger: str
    path: str
    line: int


@dataclass(slots=True, kw_only=True)
class _Window:
    began_s: float
    written: int = 0
    left_out: int = 0
    #: The severest level of the lines that were left out.
    level: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """The lines of one place that were left out in one window."""

    place: LinePlace
    count: int
    level: int


class LineLimit:
    """Decides for each record whether it is written."""

    def __init__(self) -> None:
        self._windows: dict[LinePlace, _Window] = {}

    def __len__(self) -> int:
        """Give the number of places that have a window now."""
        return len(self._windows)

    def __contains__(self, place: LinePlace) -> bool:
        """Has this place a window now?"""
        return place in self._windows

    def over(self, now_s: float) -> list[LeftOut]:
        """End the windows that are over, and give what they left out."""
        ended = [
            place
            for place, window in self._windows.items()
            # A clock that was set back ends a window, too: none lasts for ever.
            if not 0 <= now_s - window.began_s < WINDOW_S
        ]
        return self._end(ended)

    def all(self) -> list[LeftOut]:
        """End all windows, and give what they left out."""
        return self._end(list(self._windows))

    def takes(self, place: LinePlace, level: int, now_s: float) -> bool:
        """Is a record of this place written now? The caller has asked ``over`` before."""
        window = self._windows.setdefault(place, _Window(began_s=now_s))
        if window.written < LINES_MAX:
            window.written += 1
            return True
        window.left_out += 1
        window.level = max(window.level, level)
        return False

    def _end(self, places: list[LinePlace]) -> list[LeftOut]:
        found = []
        for place in places:
            window = self._windows.pop(place)
            if window.left_out:
                found.append(LeftOut(place=place, count=window.left_out, level=window.level))
        return found
