"""One link to each bookie, made when it is first used and shared by all ledgers of a client.

Several ledgers may want the same bookie at the same time, for example when a process starts. They
share one look-up.

A bookie keeps its id and may change its address. A link that does not reach its bookie is kept,
because the link knows when to try again. If the bookie now registers another address, the pool
closes the link and makes a new one. The callers of ``link`` need not care: a ``FollowingLink``
always uses the present link.
"""

import asyncio
from typing import Final, Protocol

from zonekeeper.client.base.counters import ClientCounters
from zonekeeper.client.bookies.following_link import FollowingLink
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.contract.links import BookieLink, OwnedLink
from zonekeeper.wire.formats import errors

#: The shortest time between two look-ups of a bookie that is not reached.
LOOK_UP_EVERY_MS: Final = 1_000


class LinkFactory(Protocol):
    """How bookies are found and reached: gRPC, or the simulated network."""

    async def find(self, bookie_id: BookieId) -> str | None:
        """Give a bookie's present address; None: it is not registered, or the look-up failed."""
        ...

    def make(self, bookie_id: BookieId, address: str) -> OwnedLink:
        """Give a new link to a bookie; the link connects when it is first used."""
        ...


class _Known:
    """A link, its address, and the time of the last look-up."""

    __slots__ = ("address", "link", "looked_s")

    def __init__(self, address: str, link: OwnedLink, looked_s: float) -> None:
        self.address = address
        self.link = link
        self.looked_s = looked_s


class LinkPool:
    """The links of one client."""

    def __init__(self, factory: LinkFactory, counters: ClientCounters) -> None:
        self._factory = factory
        self._counters = counters
        self._known: dict[BookieId, _Known] = {}
        #: Links that are given up and not closed yet. The task that closes one may be cancelled;
        #: then ``close`` closes it.
        self._given_up: dict[OwnedLink, None] = {}
        #: Look-ups under way. Result None: the look-up was cancelled or failed, and another waiter
        #: must repeat it.
        self._looking: dict[BookieId, asyncio.Future[tuple[str | None] | None]] = {}
        self._loop = asyncio.get_running_loop()
        self._closed = False

    async def link(self, bookie_id: BookieId) -> FollowingLink:
        """Give a link that follows a bookie; raises NotConnected if its address is not known."""
        await self.current(bookie_id)
        return FollowingLink(bookie_id, self)

    async def current(self, bookie_id: BookieId) -> BookieLink:
        """Give the link to a bookie's present address; raises NotConnected if it is not known."""
        known = self._known.get(bookie_id)
        if known is not None:
            return known.link
        address = await self._find(bookie_id)
        if address is None:
            raise errors.NotConnected(f"{bookie_id} is not registered")
        if (known := self._known.get(bookie_id)) is not None:
            return known.link  # another caller made it during the look-up
        if self._closed:
            raise errors.NotConnected("the client was closed")
        link = self._factory.make(bookie_id, address)
        self._known[bookie_id] = _Known(address, link, self._loop.time())
        return link

    async def moved(self, bookie_id: BookieId, asked: BookieLink) -> bool:
        """Say whether there is another link to a bookie that was not reached over ``asked``.

        All callers whose requests fail at the same time share one look-up and its result.
        """
        known, now_s = self._known.get(bookie_id), self._loop.time()
        if known is None or known.link is not asked:
            return True  # another caller has found the bookie's new address
        if bookie_id not in self._looking and now_s - known.looked_s < LOOK_UP_EVERY_MS / 1_000:
            return False
        known.looked_s = now_s
        address = await self._find(bookie_id)
        if self._known.get(bookie_id) is not known:
            return True
        if address in (None, known.address):
            return False
        del self._known[bookie_id]
        self._counters.links_moved += 1
        self._given_up[known.link] = None
        await known.link.close()
        self._given_up.pop(known.link, None)
        return True

    async def _find(self, bookie_id: BookieId) -> str | None:
        """Look a bookie up; callers that want it at the same time share one look-up."""
        while (looking := self._looking.get(bookie_id)) is not None:
            if (answer := await asyncio.shield(looking)) is not None:
                return answer[0]
        looking = self._looking[bookie_id] = self._loop.create_future()
        answer = None
        try:
            answer = (await self._factory.find(bookie_id),)
        finally:
            del self._looking[bookie_id]
            looking.set_result(answer)
        return answer[0]

    async def close(self) -> None:
        """Close all links, and make no new ones."""
        self._closed = True
        links = [each.link for each in self._known.values()] + [*self._given_up]
        self._known.clear()
        for link in links:
            await link.close()
