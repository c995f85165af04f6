"""Streams that end together: what comes out, and that a cancellation is never lost."""

import asyncio
from contextlib import suppress

import pytest

from zonekeeper.wire.contract.pipes import until_one_ends
from zonekeeper.wire.formats import errors


async def for_ever() -> None:
    await asyncio.Event().wait()


async def returns() -> None:
    await asyncio.sleep(0)


async def fails() -> None:
    await asyncio.sleep(0)
    raise errors.ConnectionLost("of the way")


async def test_all_end_when_one_ends() -> None:
    await until_one_ends(for_ever, returns, for_ever)
    with pytest.raises(errors.ConnectionLost, match="of the way"):
        await until_one_ends(for_ever, fails)
    assert len(asyncio.all_tasks()) == 1


async def fails_in_a_group(*errors: Exception) -> None:
    raise ExceptionGroup("of the way", [ExceptionGroup("inner", [one]) for one in errors])


async def test_a_wire_error_of_a_group_comes_out_alone_and_a_bug_with_its_group() -> None:
    with pytest.raises(errors.BadRequest, match="of the way"):
        await until_one_ends(for_ever, lambda: fails_in_a_group(errors.BadRequest("of the way")))
    both = (errors.BadRequest("of the way"), ValueError("a bug"))
    with pytest.raises(ExceptionGroup) as caught:
        await until_one_ends(for_ever, lambda: fails_in_a_group(*both))
    assert caught.group_contains(ValueError, match="a bug")


@pytest.mark.parametrize("is_failure", [True, False])
async def test_a_cancellation_that_comes_with_an_end_is_not_lost(*, is_failure: bool) -> None:
    """A link that connects again after an end would otherwise never end itself."""
    begun = asyncio.Event()

    async def ends_when_cancelled() -> None:
        begun.set()
        try:
            await for_ever()
        except asyncio.CancelledError:
            if is_failure:
                raise errors.ConnectionLost("of the way") from None

    async def connects_for_ever() -> None:
        while True:
            with suppress(errors.WireError):
                await until_one_ends(ends_when_cancelled)

    connecting = asyncio.ensure_future(connects_for_ever())
    await begun.wait()
    connecting.cancel()
    await asyncio.wait([connecting], timeout=5)
    assert connecting.cancelled()
