"""A bookie publishes its room: placement weighs bookies by the free space that they said last.

The room stands in the bookie's registration, and ends with it. So a bookie that is gone says
nothing, and one that starts with another disk says what that disk has. The first registration has
the room of that moment. After that the room is published again when it has moved by
``MOVED_SHARE``, at most once in ``PUBLISHED_EVERY_MS``: each time all clients of the cluster are
told. A later registration has the room that was last to be published.

So placement knows ``free_bytes`` to about a tenth, or as it was a minute ago. That suffices for a
weight. What must not be wrong does not ask here: the bookie refuses what has no room, and a bookie
that is full is registered as read-only, which gets no new ensembles at once.

The room is not worth a life. If the store does not answer, or a folder cannot say its room, the
next look tries again; the bookie goes on, and stays ready. Publishing registers nothing: a room
goes into the registration that stands, and ``Presence`` alone makes that one.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from zonekeeper.bookie.disk.files import Space
from zonekeeper.metadata.bookies.registration import Registrar
from zonekeeper.metadata.formats.service_info import DISK_NAME_CHARS, PublishedRoom
from zonekeeper.metadata.store.errors import StoreError

#: A room has moved when its free or total bytes differ by this share of what was published,
MOVED_SHARE: Final = 0.1
#: and its free bytes also by this share of the total: a nearly full disk moves all the time.
MOVED_OF_TOTAL: Final = 0.01
#: The shortest time between two publications of a room, beside those that come with registrations.
PUBLISHED_EVERY_MS: Final = 60_000

_logger = logging.getLogger(__name__)


def of_space(space: Space, machine: str = "") -> PublishedRoom | None:
    """Give the room that a device's space is; None: the device does not say what it has.

    ``machine`` is what this start of the machine alone has. It and the device's number name the
    disk, so that bookies on one disk are seen to share it. Several devices, or a stated capacity,
    are no disk that is shared.
    """
    if space.total_bytes <= 0:
        return None
    free = min(max(0, space.free_bytes), space.total_bytes)
    named = f"{machine} {space.device}".encode() if machine and space.device else None
    disk = None if named is None else hashlib.sha256(named).hexdigest()[:DISK_NAME_CHARS]
    return PublishedRoom(free_bytes=free, total_bytes=space.total_bytes, disk=disk)


def has_moved(published: PublishedRoom | None, now: PublishedRoom | None) -> bool:
    """Is the published room too far from the room of now?"""
    if published is None or now is None:
        return published is not now
    if published.disk != now.disk:
        return True
    grown = abs(now.total_bytes - published.total_bytes)
    if grown >= MOVED_SHARE * published.total_bytes:
        return True
    moved = abs(now.free_bytes - published.free_bytes)
    return moved >= max(MOVED_SHARE * published.free_bytes, MOVED_OF_TOTAL * now.total_bytes)


class RoomPublisher:
    """Looks at the room of a bookie from time to time, and publishes what has moved."""

    def __init__(
        self,
        registrar: Registrar,
        space: Callable[[], Awaitable[Space]],
        *,
        now_ms: Callable[[], int],
        machine: str = "",
    ) -> None:
        """``now_ms`` never goes back; ``machine``: see ``of_space``."""
        self._machine = machine
        self._registrar = registrar
        self._space = space
        self._now_ms = now_ms
        #: What a registration says, or will say.
        self._said: PublishedRoom | None = None
        #: Is it unknown whether the store has it?
        self._unsure = False
        #: When the last publication was tried; None: none was.
        self._tried_ms: int | None = None

    async def run(self, every_ms: int) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(every_ms / 1_000)
            await self.look()

    async def look(self) -> None:
        """Look once, and publish; before the registration this goes into the registration."""
        try:
            room = of_space(await self._space(), self._machine)
        except OSError as error:
            _logger.warning("the room of the bookie is not known now: %s", error)
            return
        now_ms = self._now_ms()
        waits = self._tried_ms is not None and now_ms - self._tried_ms < PUBLISHED_EVERY_MS
        if waits or not (self._unsure or has_moved(self._said, room)):
            return
        self._said, self._unsure, self._tried_ms = room, True, now_ms
        try:
            await self._registrar.tell_room(room)
        except StoreError as error:
            _logger.warning("the room of the bookie is not published now: %s", error)
        else:
            self._unsure = False
