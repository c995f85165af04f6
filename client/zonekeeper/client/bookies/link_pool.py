"""One link to each bookie, made when it is first wanted and shared by all ledgers of a process.

A bookie that many want at once, such as all ledgers of a process at its start, is looked up once.

A bookie keeps its name and may change its address. A link whose bookie is not reached is kept, as
it knows when to try again; but where the bookie now registers another address, the link is given up
for a new one. Who asks a bookie need not know: what ``link`` gives follows it (``FollowingLink``).
"""

import asyncio
from typing import Final, Protocol

from zonekeeper.client.base.counters import ClientCounters
from zonekeeper.client.bookies.following_link import FollowingLink
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.contract.links import BookieLink, OwnedLink
from zonekeeper.wire.formats import errors

#: A bookie that is not reached is looked up again at most this often.
LOOK_UP_EVERY_MS: Final = 1_000


class LinkFactory(Protocol):
    """How bookies are found and reached: gRPC, or the simulated network."""

    async def find(self, bookie_id: BookieId) -> str | None:
        """Say where a bookie is now; None: it is not registered, or nobody can tell."""
        ...

    def make(self, bookie_id: BookieId, address: str) -> OwnedLink:
        """Give a new link to a bookie; it connects when it is first used."""
        ...


class _Known:
    """A link, and where it leads."""

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
        #: Links that are given up and not closed yet: who was to close one may have been cancelled.
        self._given_up: dict[OwnedLink, None] = {}
        #: Look-ups under way. None: who asked was cancelled, and somebody else is to ask.
        self._looking: dict[BookieId, asyncio.Future[tuple[str | None] | None]] = {}
        self._loop = asyncio.get_running_loop()
        self._closed = False

    async def link(self, bookie_id: BookieId) -> FollowingLink:
        """Give the link to a bookie; raises NotConnected if nobody knows where it is."""
        await self.current(bookie_id)
        return FollowingLink(bookie_id, self)

    async def current(self, bookie_id: BookieId) -> BookieLink:
        """Give the link to where a bookie is; raises NotConnected if nobody knows that."""
        known = self._known.get(bookie_id)
        if known is not None:
            return known.link
        address = await self._find(bookie_id)
        if address is None:
            raise errors.NotConnected(f"{bookie_id} is not registered")
        if (known := self._known.get(bookie_id)) is not None:
            return known.link  # somebody else was faster
        if self._closed:
            raise errors.NotConnected("the client was closed")
        link = self._factory.make(bookie_id, address)
        self._known[bookie_id] = _Known(address, link, self._loop.time())
        return link

    async def moved(self, bookie_id: BookieId, asked: BookieLink) -> bool:
        """Say, of a bookie that was not reached over a link, whether there is another one to ask.

        All whose questions fail at the same time share one look-up, and what came of it.
        """
        known, now_s = self._known.get(bookie_id), self._loop.time()
        if known is None or known.link is not asked:
            return True  # somebody else found that it is elsewhere
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
        """Look a bookie up, once for all who want it meanwhile."""
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
        """Close all links, and make no others."""
        self._closed = True
        links = [each.link for each in self._known.values()] + [*self._given_up]
        self._known.clear()
        for link in links:
            await link.close()
