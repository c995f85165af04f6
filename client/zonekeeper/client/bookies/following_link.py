"""A link that follows its bookie: each call goes to the bookie's present address.

A bookie keeps its id and may change its address, but a link over the wire leads to one address for
ever. So only the pool holds that link, and each call here uses the present one. If a call does not
reach the bookie (``UNREACHED``), the bookie is looked up again, for every kind of call and every
caller. If it has another address now, the call is made there once more.

The bookie may have done the first call, and only its answer was lost. So a bookie has only calls
that may be made twice. A tail that has given an update is not begun again, because only its caller
knows where to go on. The bookie is still looked up, and the next tail uses its new address.
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

#: The errors of a call to an address where the bookie no longer is: the connection is refused, it
#: breaks, or there is no answer.
UNREACHED: Final = (errors.NotConnected, errors.ConnectionLost, errors.Timeout)


class Ways(Protocol):
    """The links over the wire: the pool."""

    async def current(self, bookie_id: BookieId) -> BookieLink:
        """Give the link to a bookie's present address; raises NotConnected if it is not known."""
        ...

    async def moved(self, bookie_id: BookieId, asked: BookieLink) -> bool:
        """Say whether there is another link to a bookie that was not reached over ``asked``."""
        ...


class FollowingLink:
    """A ``links.BookieLink`` that holds no connection, so it is never out of date."""

    __slots__ = ("_bookie_id", "_ways")

    def __init__(self, bookie_id: BookieId, ways: Ways) -> None:
        self._bookie_id = bookie_id
        self._ways = ways

    @property
    def bookie_id(self) -> BookieId:
        """The bookie that is asked."""
        return self._bookie_id

    async def open_fragment(
        self, opening: FragmentOpening, sink: AppendSink, *, was_open: bool = False
    ) -> AppendLane:
        """Open a fragment; an opening that failed gives no lane, and its sink gets no outcome."""
        return await self._ask(lambda link: link.open_fragment(opening, sink, was_open=was_open))

    async def read(self, request: service.ReadRequest) -> service.ReadReply:
        """Read a range; with a key, fence first."""
        return await self._ask(lambda link: link.read(request))

    async def fence(
        self, ledger_id: LedgerId, master_key: MasterKey, create_token: int = 0
    ) -> service.LacEvidence:
        """Fence a ledger, and give what the bookie knows of its end."""
        return await self._ask(lambda link: link.fence(ledger_id, master_key, create_token))

    async def read_lac(
        self, ledger_id: LedgerId, key: MasterKey | None = None
    ) -> service.LacEvidence:
        """Give what the bookie knows of a ledger's end, without fencing."""
        return await self._ask(lambda link: link.read_lac(ledger_id, key))

    async def force(self, ledger_id: LedgerId, key: MasterKey | None = None) -> None:
        """Make durable what was acknowledged."""
        await self._ask(lambda link: link.force(ledger_id, key))

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
        """List a page of the entries that the bookie has of a ledger."""
        return await self._ask(lambda link: link.list_entries(request))

    async def info(self) -> service.BookieInfo:
        """Give the bookie's id, state, start, version and room."""
        return await self._ask(lambda link: link.info())

    async def set_read_only(self, *, read_only: bool) -> None:
        """Make the bookie refuse plain appends, or take them again."""
        await self._ask(lambda link: link.set_read_only(read_only=read_only))

    async def end_limbo(self, ledger_id: LedgerId, boot_epoch: int) -> None:
        """End a ledger's limbo, once the bookie holds all entries that belong on it."""
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
