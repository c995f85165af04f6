"""The shape of a host's answers: acks as runs of numbers, and reads that fit into a carrier."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import carriers

_CARRIER_ROOM: Final = carriers.CARRIER_BYTES_MAX - carriers.HEADER_BYTES


def runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Give the runs of consecutive numbers, none longer than one ``Acked`` may be."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] + 1 == number and number - found[-1][0] < carriers.ACKED_MAX:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


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
