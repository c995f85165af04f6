"""One question to one bookie, over the links of this process."""

from collections.abc import Callable, Coroutine
from typing import TypeVar

from zonekeeper.client.bookies import link_pool
from zonekeeper.client.bookies.link_pool import LinkPool
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.contract.links import BookieLink

Reply = TypeVar("Reply")


async def ask(
    pool: LinkPool,
    bookie: BookieId,
    question: Callable[[BookieLink], Coroutine[None, None, Reply]],
) -> Reply:
    """Ask a bookie; if it is not reached, ask where it is now. Raises ``ProtocolError``.

    The first question may have been heard, and its answer lost: ask what may be asked twice.
    """
    link = await pool.link(bookie)
    try:
        return await question(link)
    except link_pool.UNREACHED:
        if not await pool.moved(bookie, link):
            raise
    return await question(await pool.link(bookie))
