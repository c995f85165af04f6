"""Noticing the commits of other processes, by asking SQLite repeatedly while there are watches.

A look sees, in the reading thread, whether anything was committed, and the state of the watched
paths then. A key's stamp is that of the oldest read that armed it. So a change after that read is
never missed, and a later watcher of the key may be notified without a change.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from zonekeeper.metadata.store import errors
from zonekeeper.metadata.store.watching import Key, Notice, Notices, Watched
from zonekeeper.metadata.stores.sqlite_file import Stamp

Answer = TypeVar("Answer")

POLL_EVERY_MS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The result of a look; without stamps if nothing was committed since the last look."""

    version: int
    stamps: Mapping[str, Stamp | None]
    overdue: bool


class Poller:
    """Notifies watches; ``look`` gets the last version seen, or None to compare all paths."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        look: Callable[[int | None, Sequence[str]], "asyncio.Future[Sight]"],
        end_overdue: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._look = look
        self._end_overdue = end_overdue
        self._notices = Notices()
        self._stamps: dict[Key, Stamp | None] = {}
        self._version: int | None = None
        #: Something was armed since the start of the last successful look; the next compares all.
        self._armed_since = False
        self._timer: asyncio.TimerHandle | None = None
        self._looking = False
        self._hurried = False
        self._closed = False

    def arm(self, key: Key, notice: Notice, stamp: Stamp | None) -> None:
        """Have ``notice`` called once the key differs from the read that gave this stamp."""
        self._notices.arm(key, notice)
        self._stamps.setdefault(key, stamp)
        self._armed_since = True
        if self._timer is None and not self._looking:
            self._timer = self._loop.call_later(POLL_EVERY_MS / 1000, self._poll)

    def disarm(self, key: Key, notice: Notice) -> None:
        """Forget a notice; without another notice of the key, forget the key too."""
        self._notices.disarm(key, notice)
        if key not in self._notices:
            self._stamps.pop(key, None)

    def hurry(self) -> None:
        """Look now, because something was committed."""
        if self._looking:
            self._hurried = True
        elif self._timer is not None:
            self._timer.cancel()
            self._poll()

    def close(self) -> None:
        """Call every notice, and look no more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._stamps.clear()
        self._notices.tell_all()

    def _poll(self) -> None:
        self._timer = None
        if not self._stamps or self._closed:
            return
        self._looking = True
        self._hurried = False
        paths = tuple({path: None for _, path in self._stamps})
        known_version = None if self._armed_since else self._version
        self._armed_since = False
        self._look(known_version, paths).add_done_callback(self._seen)

    def _seen(self, done: "asyncio.Future[Sight]") -> None:
        self._looking = False
        if self._closed:
            taken(done, self._closed)
            return
        if taken(done, self._closed) is not None:
            self._armed_since = True  # the failed look compared nothing: the next compares all
        else:
            sight = done.result()
            self._version = sight.version
            if sight.overdue:
                self._end_overdue()
            for key, stamp in tuple(self._stamps.items()):
                seen = sight.stamps.get(key[1], stamp)
                if _part(key, seen) != _part(key, stamp):
                    del self._stamps[key]
                    self._notices.tell(key)
        if self._hurried:
            self._poll()
        elif self._stamps:
            self._timer = self._loop.call_later(POLL_EVERY_MS / 1000, self._poll)


def _part(key: Key, stamp: Stamp | None) -> tuple[int, int] | None:
    """Give the part of a stamp that changes with the watched part of the node."""
    if stamp is None:
        return None
    which = stamp.modified_id if key[0] is Watched.NODE else stamp.children_id
    return stamp.created_id, which


def taken(done: "asyncio.Future[Answer]", closed: bool) -> BaseException | None:
    """Give a finished job's error; an error that is not a store's is a bug, and is raised."""
    if done.cancelled():
        return asyncio.CancelledError()
    error = done.exception()
    if error is not None and not closed and not isinstance(error, errors.StoreError):
        raise error
    return error
