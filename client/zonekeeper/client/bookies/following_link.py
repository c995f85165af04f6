"""A bookie's link as all who ask it have it: what is asked goes where the bookie is now.

A bookie keeps its name and may change its address, while a link over the wire leads to one address
for ever. So only the pool has that link. Each call here is made over the present one; if the bookie
is not reached (``UNREACHED``), it is looked up again, whatever was asked and whoever asked it; and
if it is elsewhere now, the call is made there, once more.

The first call may have been heard, and its answer lost. That is why only what may be asked twice
can be asked of a bookie. A tail that has given something is not begun again: where it goes on only
its caller knows. The bookie is looked up all the same, and the next tail begins where it is.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final, Protocol, TypeVar

from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.contract.links import AppendLane, AppendSink, BookieLink
from zonekeeper.wire.formats import errors
from zonekeeper.wire.formats.digests import MasterKey
from zonekeeper.wire.formats.openings import FragmentOpening

Reply = TypeVar("Reply")

#: How a question ends where the bookie is no more: refused, cut off, or not heard at all.
UNREACHED: Final = (errors.NotConnected, errors.ConnectionLost, errors.Timeout)


class Ways(Protocol):
    """The links over the wire: the pool."""

    async def current(self, bookie_id: BookieId) -> BookieLink:
        """Give the link to a bookie's address; raises NotConnected if nobody knows where it is."""
        ...

    async def moved(self, bookie_id: BookieId, asked: BookieLink) -> bool:
        """Say, of a bookie that was not reached over a link, whether there is another one."""
        ...


class FollowingLink:
    """A ``links.BookieLink`` that holds no connection, and so is never out of date."""

    __slots__ = ("_bookie_id", "_ways")

    def __init__(self, bookie_id: BookieId, ways: Ways) -> None:
        self._bookie_id = bookie_id
        self._ways = ways

    @property
    def bookie_id(self) -> BookieId:
        """Who is at the other end."""
        return self._bookie_id

    async def open_fragment(self, opening: FragmentOpening, sink: AppendSink) -> AppendLane:
        """Open a fragment; an opening that failed has no lane, and its sink hears no outcome."""
        return await self._ask(lambda link: link.open_fragment(opening, sink))

    async def read(self, request: service.ReadRequest) -> service.ReadReply:
        """Read a range; with a key, fence first."""
        return await self._ask(lambda link: link.read(request))

    async def fence(self, ledger_id: LedgerId, master_key: MasterKey) -> service.LacEvidence:
        """Fence a ledger, and hear what the bookie knows of its end."""
        return await self._ask(lambda link: link.fence(ledger_id, master_key))

    async def read_lac(self, ledger_id: LedgerId) -> service.LacEvidence:
        """Hear what the bookie knows of a ledger's end, without fencing."""
        return await self._ask(lambda link: link.read_lac(ledger_id))

    async def force(self, ledger_id: LedgerId) -> None:
        """Make durable what was acknowledged."""
        await self._ask(lambda link: link.force(ledger_id))

    async def tail(self, request: service.TailRequest) -> AsyncGenerator[service.TailUpdate, None]:
        """Follow a ledger."""
        link, given = await self._ways.current(self._bookie_id), False
        try:
            async with aclosing(link.tail(request)) as updates:
                async for update in updates:
                    given = True
                    yield update
        except UNREACHED:
            if not await self._ways.moved(self._bookie_id, link) or given:
                raise
        link = await self._ways.current(self._bookie_id)
        async with aclosing(link.tail(request)) as updates:
            async for update in updates:
                yield update

    async def list_entries(self, request: service.ListEntriesRequest) -> service.EntryRanges:
        """List a page of what the bookie has of a ledger."""
        return await self._ask(lambda link: link.list_entries(request))

    async def info(self) -> service.BookieInfo:
        """Hear how the bookie is."""
        return await self._ask(lambda link: link.info())

    async def set_read_only(self, *, read_only: bool) -> None:
        """Make the bookie refuse appends, or take them again."""
        await self._ask(lambda link: link.set_read_only(read_only=read_only))

    async def end_limbo(self, ledger_id: LedgerId, boot_epoch: int) -> None:
        """Let the bookie answer for a ledger again, once it holds what it should."""
        await self._ask(lambda link: link.end_limbo(ledger_id, boot_epoch))

    async def compact(self, *, major: bool) -> None:
        """Start a compaction."""
        await self._ask(lambda link: link.compact(major=major))

    async def _ask(self, question: Callable[[BookieLink], Awaitable[Reply]]) -> Reply:
        link = await self._ways.current(self._bookie_id)
        try:
            return await question(link)
        except UNREACHED:
            if not await self._ways.moved(self._bookie_id, link):
                raise
        return await question(await self._ways.current(self._bookie_id))
