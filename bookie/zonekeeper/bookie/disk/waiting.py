"""Waiting for what may not come."""

import asyncio


async def comes(news: asyncio.Event, timeout_ms: int) -> bool:
    """Wait for news; False: there was none in time."""
    try:
        async with asyncio.timeout(timeout_ms / 1_000):
            await news.wait()
    except TimeoutError:
        return False
    return True
