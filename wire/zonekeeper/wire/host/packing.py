"""Messages of a bookie's streams: how they are read, cut and joined, and how large they may be."""

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Final

from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import carriers, errors

_CARRIER_ROOM: Final = carriers.CARRIER_BYTES_MAX - carriers.HEADER_BYTES


class ReplyBudget:
    """Bytes that all streams share. At the limit newcomers wait; the last one may pass over it."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.taken = 0
        self._has_room = asyncio.Event()
        self._has_room.set()

    @property
    def has_room(self) -> bool:
        """Is the limit not reached?"""
        return self.taken < self._bytes_max

    async def room(self) -> None:
        """Wait until the limit is not reached."""
        while not self.has_room:
            await self._has_room.wait()

    def take(self, size_bytes: int) -> None:
        """Count bytes; a negative number gives them back."""
        self.taken += size_bytes
        if self.has_room:
            self._has_room.set()
        else:
            self._has_room.clear()


async def room_in(*budgets: ReplyBudget) -> None:
    """Wait until all of these have room at the same moment."""
    while not all(budget.has_room for budget in budgets):
        for budget in budgets:
            await budget.room()


def runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Give the runs of consecutive numbers, none longer than one ``Acked`` may be."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] + 1 == number and number - runs[-1][0] < carriers.ACKED_MAX:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def fitting(number: int, reply: service.ReadReply) -> carriers.ReadAnswer:
    """Give as much of a reply as fits into a carrier; the reader asks again for the rest."""
    item = carriers.ReadAnswer(
        number=number,
        next_entry=reply.next_entry_id,
        last_add_confirmed=reply.last_add_confirmed,
        frames=reply.frames,
    )
    while carriers.size_of(item) > _CARRIER_ROOM:
        *kept, left_out = item.frames
        item = dataclasses.replace(item, next_entry=left_out.first, frames=tuple(kept))
    return item


def items(message: bytes | bytearray, wire_version: int) -> tuple[carriers.Item, ...]:
    """Read a carrier; raises ``ProtocolError``."""
    try:
        return carriers.parse(message, wire_version)
    except errors.FormatError as fault:
        raise fault.as_protocol_error() from fault
