"""One Read stream of a host: reads come in, and their answers leave in messages that they fill.

The reads under way and the bytes of their answers are bounded. Beyond the bound the stream is not
read, and the network's own flow control stops the client.
"""

import asyncio
from collections import deque
from dataclasses import dataclass

from zonekeeper.wire.contract import service
from zonekeeper.wire.contract.pipes import Pipe
from zonekeeper.wire.formats import carriers, errors
from zonekeeper.wire.host import owning, packing
from zonekeeper.wire.host.host_limits import REPLY_BYTES_MAX, HostLimits
from zonekeeper.wire.host.packing import ReplyBudget
from zonekeeper.wire.host.shares import StreamCaller
from zonekeeper.wire.host.turns import Turns
from zonekeeper.wire.identity import operations


@dataclass(frozen=True, slots=True)
class ReplyShares:
    """What all Read streams of a host share for their answers."""

    limits: HostLimits
    replies: ReplyBudget
    turns: Turns


class ReadStream:
    """One Read stream."""

    def __init__(
        self,
        bookie: service.BookieService,
        shares: ReplyShares,
        wire_version: int,
        caller: StreamCaller,
    ) -> None:
        self._guard = caller.guard
        self._bookie = bookie
        self._session = caller.session
        self._share = caller.share
        self._wire_version = wire_version
        self._limits = shares.limits
        self._replies = shares.replies
        self._turns = shares.turns
        #: The reads whose answer has not left, and the bytes that their answers have or may get.
        self._reads = 0
        self._bytes = 0
        self._answers: deque[tuple[int, carriers.ReadAnswer | carriers.Refused]] = deque()
        self._answered = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def take_in(self, pipe: Pipe) -> None:
        """Take reads in until the client ends the stream; each is under way at once."""
        async with asyncio.TaskGroup() as reads:
            while (message := await pipe.receive()) is not None:
                for item in packing.items(message, self._wire_version):
                    if not isinstance(item, carriers.Read):
                        raise errors.BadRequest(f"{item} does not belong on a Read stream")
                    await self._has_room.wait()
                    await packing.room_in(self._share.replies, self._replies)
                    bytes_max = max(1, min(item.max_bytes, REPLY_BYTES_MAX))
                    self._count(1, bytes_max)
                    reads.create_task(self._read(item, bytes_max))

    async def answer(self, pipe: Pipe) -> None:
        """Send answers, as many in a message as fit, for as long as the stream lasts."""
        while True:
            await self._answered.wait()
            self._answered.clear()
            while self._answers:
                items, size_bytes = self._take_answers()
                await self._turns.mine(size_bytes)
                await pipe.send(carriers.build(items, self._wire_version))
                self._count(-len(items), -size_bytes)

    def ended(self) -> None:
        """Return the bytes of this stream to the budget of all streams."""
        self._replies.take(-self._bytes)
        self._share.replies.take(-self._bytes)
        self._bytes = 0

    def _count(self, reads: int, size_bytes: int) -> None:
        self._reads += reads
        self._bytes += size_bytes
        self._replies.take(size_bytes)
        self._share.replies.take(size_bytes)
        limits = self._limits
        if self._reads < limits.reads_max and self._bytes < limits.read_bytes_max:
            self._has_room.set()
        else:
            self._has_room.clear()

    async def _read(self, read: carriers.Read, bytes_max: int) -> None:
        answer: carriers.ReadAnswer | carriers.Refused
        fences = read.fences or read.fence_key is not None
        shown = self._session.of_read(read)
        if shown is not None and self._session.guesses.is_set():
            return  # the stream ends; each read may be a guess, and a carrier holds thousands
        try:
            operation = operations.of_item(read)
            with self._guard.asked(operation, read.ledger_id):
                await owning.check(
                    self._bookie, self._guard, operation, read.ledger_id, read.create_token
                )
                reply = await self._bookie.read(
                    service.ReadRequest(
                        ledger_id=read.ledger_id,
                        first_entry_id=read.first,
                        last_entry_id=read.last,
                        step=read.step,
                        bytes_max=bytes_max,
                        fence_key=shown if fences else None,
                        key=None if fences else shown,
                        create_token=read.create_token,
                    )
                )
            answer = packing.fitting(read.number, reply)
        except errors.ProtocolError as error:
            if shown is not None:
                self._session.heard(error)
            answer = carriers.Refused(number=read.number, code=error.code, detail=error.detail)
        size_bytes = carriers.size_of(answer)
        self._count(0, size_bytes - bytes_max)
        self._answers.append((size_bytes, answer))
        self._answered.set()

    def _take_answers(self) -> tuple[list[carriers.Item], int]:
        """Give answers for one message, at least one, and the number of their bytes."""
        items: list[carriers.Item] = []
        total = 0
        room = carriers.CARRIER_BYTES_AIM - carriers.HEADER_BYTES
        while self._answers and len(items) < carriers.ITEMS_MAX:
            size_bytes, answer = self._answers[0]
            if items and total + size_bytes > room:
                break
            self._answers.popleft()
            items.append(answer)
            total += size_bytes
        return items, total
