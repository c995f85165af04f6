"""Bookies that take their time to open a ledger."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from tests.client.lab import Door, Lab
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import carriers


@contextmanager
def late_openings(
    lab: Lab, after_s: float, only: Iterable[BookieId] | None = None
) -> Iterator[None]:
    """Let openings come to bookies so much later, in a block; what is no opening comes at once."""
    doors = [lab.door(one) for one in (lab.machines if only is None else only)]
    for door in doors:
        _delay(door, after_s)
    try:
        yield
    finally:
        for door in doors:
            door.append = Door.append.__get__(door)  # type: ignore[method-assign]  # as it was


def _delay(door: Door, after_s: float) -> None:
    loop = asyncio.get_running_loop()

    def append(items: Sequence[carriers.Request], replies: service.Replies) -> None:
        openings = [one for one in items if isinstance(one, carriers.Open)]
        rest = [one for one in items if not isinstance(one, carriers.Open)]
        if openings:
            loop.call_later(after_s, Door.append, door, openings, replies)
        if rest:
            Door.append(door, rest, replies)

    door.append = append  # type: ignore[method-assign]  # it delays, and is the door
