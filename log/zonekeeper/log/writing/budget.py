"""The bytes that the logs of one client may hold for messages that are not acknowledged. Pure.

All logs share one budget, so a process with 1,000 logs holds no more than one with a few. A log
that holds nothing may always take one message, however large it is: no log stands still because
others have spent the budget.
"""

from collections.abc import Callable
from typing import Final

BUDGET_BYTES: Final = 64 << 20


class LogBudget:
    """What is spent, and which logs wait until some of it is free again."""

    def __init__(self, limit_bytes: int = BUDGET_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._listeners: dict[Callable[[], object], None] = {}
        #: Logs that could free something by a force.
        self._holders: dict[Callable[[], object], None] = {}

    @property
    def is_short(self) -> bool:
        """Does a log wait for room?"""
        return bool(self._listeners)

    def has_room(self, size_bytes: int, *, held_bytes: int) -> bool:
        """Is there room for a message of a log that holds so many bytes already?"""
        return held_bytes == 0 or self.has_room_for_all(size_bytes)

    def has_room_for_all(self, size_bytes: int) -> bool:
        """Is there room for several messages of so many bytes together?"""
        return self.used_bytes + size_bytes <= self.limit_bytes

    def change(self, by_bytes: int) -> None:
        """Note that a log holds more, or less; then all logs hear that there is room."""
        self.used_bytes += by_bytes
        assert self.used_bytes >= 0, "more was released than was taken"
        if by_bytes < 0:
            for tell in list(self._listeners):
                tell()

    def listen(self, tell: Callable[[], object]) -> None:
        """Have a log that waits hear of room; those that could make some hear of that."""
        self._listeners[tell] = None
        for holder in list(self._holders):
            holder()

    def forget(self, tell: Callable[[], object]) -> None:
        """Tell a log nothing more."""
        self._listeners.pop(tell, None)

    def join(self, tell: Callable[[], object]) -> None:
        """Have a log that keeps messages until they are forced hear that another waits for room."""
        self._holders[tell] = None

    def leave(self, tell: Callable[[], object]) -> None:
        """Undo ``join``."""
        self._holders.pop(tell, None)
