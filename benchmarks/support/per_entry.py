"""The baseline of frames: a stream that carries each entry in a message of its own.

The same bookies, the same gRPC stream and the same bytes; only nothing is put together. An entry
counts once an ack quorum has it, and so many are under way at once. What is written is a ledger
like any other: a recovery finds all of it.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from grpc import aio

from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId
from zonekeeper.wire.contract.pipes import StreamKind
from zonekeeper.wire.formats import bookie_names, carriers, entries, frames, openings
from zonekeeper.wire.grpc import grpc_edge

_WINDOW: Final = 1_000
#: The number of the first request of a stream; those of the entries follow.
_OPENING: Final = 0


class Streams:
    """A stream to each bookie of a ledger's one fragment, opened."""

    def __init__(
        self, pipes: Sequence["_Pipe"], opening: openings.FragmentOpening, password: bytes
    ) -> None:
        self._pipes = pipes
        self._ack = opening.quorums.ack
        self._sealer = entries.Sealer(opening.ledger_id, opening.digest, password)

    async def write(self, payload: bytes, count: int) -> None:
        """Write entries to all bookies, each entry alone, until each has its ack quorum."""
        acks: Counter[int] = Counter()
        room = asyncio.Semaphore(_WINDOW)
        done = asyncio.Event()

        def acked(number: int) -> None:
            acks[number] += 1
            if acks[number] == self._ack:
                room.release()
                if number == count - 1:
                    done.set()

        async with asyncio.TaskGroup() as group:
            hearing = [group.create_task(pipe.hear(acked)) for pipe in self._pipes]
            for number in range(count):
                await room.acquire()
                before = number * len(payload)
                frame = frames.seal(self._sealer, EntryId(number), NO_ENTRY, before, [payload])
                item = carriers.Append(number=_OPENING + 1 + number, frame=frame)
                message = carriers.build([item])
                await asyncio.gather(*(pipe.call.write(message) for pipe in self._pipes))
            await done.wait()
            for task in hearing:
                task.cancel()


@asynccontextmanager
async def opened(
    addresses: Mapping[BookieId, str],
    instance: str,
    opening: openings.FragmentOpening,
    password: bytes,
) -> AsyncIterator[Streams]:
    """Open a ledger at each bookie of a fragment, over a stream of its own."""
    async with AsyncExitStack() as ends:
        pipes = []
        for bookie in opening.ensemble:
            name = bookie_names.name_of(bookie, instance)
            pipe = await _Pipe.opened(name, addresses[bookie], opening)
            ends.push_async_callback(pipe.close)
            pipes.append(pipe)
        yield Streams(pipes, opening, password)


class _Pipe:
    """One stream to one bookie."""

    def __init__(self, channel: aio.Channel, call: "aio.StreamStreamCall[bytes, bytes]") -> None:
        self._channel = channel
        self.call = call

    @classmethod
    async def opened(cls, name: str, address: str, opening: openings.FragmentOpening) -> "_Pipe":
        channel = aio.insecure_channel(
            address, options=grpc_edge.client_options(bookie_names.bookie_of(name))
        )
        start: aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
            grpc_edge.method_path(StreamKind.APPEND.value)
        )
        pipe = cls(channel, start(metadata=grpc_edge.meant_for(name)))
        (hello,) = await pipe._items()
        assert isinstance(hello, carriers.Hello)
        await pipe.call.write(carriers.build([carriers.Open(number=_OPENING, opening=opening)]))
        (answer,) = await pipe._items()
        assert isinstance(answer, carriers.Acked), answer
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
