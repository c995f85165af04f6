"""The baseline of frames: a stream that carries each entry in a message of its own.

The same bookies, the same gRPC stream and the same bytes; only nothing is put together. An entry
counts once ``ack`` of its bookies have it, and so many are under way at once.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from grpc import aio

from zonekeeper.placement.digests import Digest
from zonekeeper.placement.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from zonekeeper.placement.quorums import Quorums
from zonekeeper.wire import (
    carriers,
    digests,
    entries,
    frames,
    grpc_edge,
    openings,
)
from zonekeeper.wire.pipes import StreamKind

_WINDOW: Final = 1_000
#: The number of the first request of a stream; those of the entries follow.
_OPENING: Final = 0
_PASSWORD: Final = b""


async def write(
    addresses: Mapping[BookieId, str],
    ledger_id: LedgerId,
    payload: bytes,
    *,
    instance: str,
    count: int,
    quorums: Quorums,
) -> None:
    """Write entries to all of these bookies, each entry alone, until each has its ack quorum."""
    sealer = entries.Sealer(ledger_id, Digest.CRC32C, _PASSWORD)
    opening = openings.FragmentOpening(
        ledger_id=ledger_id,
        master_key=digests.master_key(_PASSWORD),
        quorums=quorums,
        digest=Digest.CRC32C,
        first_entry_id=EntryId(0),
        ensemble=tuple(addresses),
    )
    acks: Counter[int] = Counter()
    room = asyncio.Semaphore(_WINDOW)
    done = asyncio.Event()

    def acked(number: int) -> None:
        acks[number] += 1
        if acks[number] == quorums.ack:
            room.release()
            if number == count - 1:
                done.set()

    async with asyncio.TaskGroup() as group:
        pipes = [
            await _Pipe.opened(grpc_edge.name_of(bookie, instance), address, opening)
            for bookie, address in addresses.items()
        ]
        hearing = [group.create_task(pipe.hear(acked)) for pipe in pipes]
        for number in range(count):
            await room.acquire()
            frame = frames.seal(sealer, EntryId(number), NO_ENTRY, 0, [payload])
            item = carriers.Append(number=_OPENING + 1 + number, frame=frame)
            message = carriers.build([item])
            await asyncio.gather(*(pipe.call.write(message) for pipe in pipes))
        await done.wait()
        for task in hearing:
            task.cancel()
    for pipe in pipes:
        await pipe.close()


class _Pipe:
    """One stream to one bookie."""

    def __init__(self, channel: aio.Channel, call: "aio.StreamStreamCall[bytes, bytes]") -> None:
        self._channel = channel
        self.call = call

    @classmethod
    async def opened(cls, name: str, address: str, opening: openings.FragmentOpening) -> "_Pipe":
        channel = aio.insecure_channel(
            address, options=grpc_edge.client_options(grpc_edge.bookie_of(name))
        )
        start: aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
            grpc_edge.method_path(StreamKind.APPEND.value)
        )
        pipe = cls(channel, start(metadata=grpc_edge.meant_for(name)))
        (hello,) = await pipe._items()
        assert isinstance(hello, carriers.Hello)
        await pipe.call.write(carriers.build([carriers.Open(number=_OPENING, opening=opening)]))
        (opened,) = await pipe._items()
        assert isinstance(opened, carriers.Acked), opened
        return pipe

    async def hear(self, acked: Callable[[int], None]) -> None:
        while True:
            for item in await self._items():
                assert isinstance(item, carriers.Acked), item
                for number in range(item.number, item.last + 1):
                    acked(number - _OPENING - 1)

    async def close(self) -> None:
        self.call.cancel()
        await self._channel.close()

    async def _items(self) -> tuple[carriers.Item, ...]:
        message = await self.call.read()
        assert isinstance(message, bytes), "the bookie ended the stream"
        return carriers.parse(message)
