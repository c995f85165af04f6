"""When a stream is made, which callers share it, and how long a failure delays the next one."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import playing, virtual_time
from zonekeeper.wire.formats import errors
from zonekeeper.wire.lanes.back_off import BackOff
from zonekeeper.wire.link.connecting import Connecting


class Chosen:
    """A chance that gives what it is told to."""

    def __init__(self, value: float) -> None:
        self.value = value

    def random(self) -> float:
        return self.value


def back_off(chance: float = 0.999) -> BackOff:
    return BackOff(first_ms=100, max_ms=1_000, chance=Chosen(chance))


@given(chance=st.floats(0, 1, exclude_max=True), failures=st.integers(1, 100))
def test_a_delay_is_between_half_and_all_of_a_doubling_bound(chance: float, failures: int) -> None:
    waiting = back_off(chance)
    for _ in range(failures):
        waiting.failed(5.0)
    bound_s = min(0.1 * 2 ** (failures - 1), 1.0)
    assert bound_s / 2 - 1e-9 <= waiting.remaining_s(5.0) <= bound_s + 1e-9
    waiting.succeeded()
    assert waiting.remaining_s(5.0) == 0


class Attempts:
    """Streams that take a second to make; fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.made = 0
        self.failures = failures
        self.live = asyncio.Event()
        self.end = asyncio.Event()

    async def __call__(self, ready: Callable[[str], None]) -> None:
        await asyncio.sleep(1)
        self.made += 1
        if self.made <= self.failures:
            raise errors.ConnectionLost(f"failure {self.made}")
        ready(f"stream {self.made}")
        await self.end.wait()
        self.end.clear()
        raise errors.ConnectionLost("the stream broke")


def play(
    scenario: Callable[[Connecting[str], Attempts], Awaitable[None]], *, failures: int = 0
) -> None:
    async def main() -> None:
        async with asyncio.timeout(100), asyncio.TaskGroup() as tasks:
            attempts = Attempts(failures)
            connecting = Connecting("bookie", attempts, back_off=back_off(), tasks=tasks)
            await scenario(connecting, attempts)
            await connecting.close()

    virtual_time.run(main())


played = playing.by(play, parts=2)


@played()
async def test_all_who_ask_share_one_attempt_and_one_stream(
    connecting: Connecting[str], attempts: Attempts
) -> None:
    streams = await asyncio.gather(*(connecting.current() for _ in range(5)))
    assert set(streams) == {"stream 1"}
    assert await connecting.current() == "stream 1"


@played()
async def test_who_is_cancelled_does_not_take_the_attempt_along(
    connecting: Connecting[str], attempts: Attempts
) -> None:
    first = asyncio.ensure_future(connecting.current())
    second = asyncio.ensure_future(connecting.current())
    await asyncio.sleep(0.5)
    first.cancel()
    assert await second == "stream 1"
    assert first.cancelled()


@played()
async def test_after_a_broken_stream_the_next_attempt_is_made_at_once(
    connecting: Connecting[str], attempts: Attempts
) -> None:
    assert await connecting.current() == "stream 1"
    attempts.end.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await connecting.current() == "stream 2"


@played(failures=2)
async def test_after_a_failed_attempt_everybody_is_refused_until_the_back_off_is_over(
    connecting: Connecting[str], attempts: Attempts
) -> None:
    for delay_s in (0.1, 0.2):
        with pytest.raises(errors.NotConnected, match="cannot connect: failure"):
            await connecting.current()
        made = attempts.made
        with pytest.raises(errors.NotConnected, match="the next one may be made in"):
            await connecting.current()
        await asyncio.sleep(delay_s * 0.9)
        with pytest.raises(errors.NotConnected):
            await connecting.current()
        assert attempts.made == made
        await asyncio.sleep(delay_s * 0.1)
    assert await connecting.current() == "stream 3"


@pytest.mark.parametrize("turns", range(4))
@played()
async def test_closing_wakes_who_waits_however_far_the_attempt_is(
    connecting: Connecting[str], attempts: Attempts, turns: int
) -> None:
    waiting = asyncio.ensure_future(connecting.current())
    for _ in range(turns):
        await asyncio.sleep(0)
    await connecting.close()
    with pytest.raises(errors.NotConnected):
        await waiting
    with pytest.raises(errors.NotConnected, match="closed"):
        await connecting.current()


@played()
async def test_a_stream_that_is_left_goes_on_and_whoever_comes_next_gets_another(
    connecting: Connecting[str], attempts: Attempts
) -> None:
    assert connecting.renew() is None, "there is none to leave"
    assert await connecting.current() == "stream 1"
    assert connecting.renew() == "stream 1"
    end_of_first, attempts.end = attempts.end, asyncio.Event()
    assert await connecting.current() == "stream 2"
    assert len(connecting._lives) == 2
    end_of_first.set()
    await asyncio.sleep(0.1)
    assert len(connecting._lives) == 1
    assert await connecting.current() == "stream 2", "the end of the one that was left is no loss"


@played()
async def test_closing_ends_the_streams_that_were_left_too(
    connecting: Connecting[str], attempts: Attempts
) -> None:
    await connecting.current()
    connecting.renew()
    await connecting.current()
    connecting.renew()
    await connecting.close()
    assert not connecting._lives


@played()
async def test_an_attempt_that_is_under_way_is_not_left(
    connecting: Connecting[str], attempts: Attempts
) -> None:
    waiting = asyncio.ensure_future(connecting.current())
    await asyncio.sleep(0.5)
    assert connecting.renew() is None
    assert await waiting == "stream 1"
    assert attempts.made == 1
