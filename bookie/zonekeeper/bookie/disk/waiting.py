"""Wait for an event, with a time limit."""

import asyncio


async def comes(news: asyncio.Event, timeout_ms: int) -> bool:
    """Wait until the event is set; False: it was not set in time."""
    try:
        async with asyncio.timeout(timeout_ms / 1_000):
            await news.wait()
    except TimeoutError:
        return False
    return True
