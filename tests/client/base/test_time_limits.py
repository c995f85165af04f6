"""The time of a call: what ends in it comes out as it is."""

import asyncio
import copy
import pickle

import pytest

from tests.support import virtual_time
from zonekeeper.client.base import arguments, errors, time_limits


def _over() -> errors.WaitTimedOut:
    return errors.WaitTimedOut("over", maybe_applied=True)


async def _fail(error: BaseException) -> None:
    raise error


async def _number(after_s: float) -> int:
    await asyncio.sleep(after_s)
    return 7


@pytest.mark.parametrize("most_s", [None, 3])
@virtual_time.played
async def test_what_is_done_in_time_comes_out_as_it_is(most_s: float | None) -> None:
    assert await time_limits.of(most_s).hold(_number(2), _over) == 7
    inner = errors.WaitTimedOut("of a call inside")
    for error in (TimeoutError("of the work"), inner, asyncio.CancelledError(), KeyError()):
        with pytest.raises(type(error)) as raised:
            await time_limits.of(most_s).hold(_fail(error), _over)
        assert raised.value is error


@virtual_time.played
async def test_work_is_cancelled_when_its_time_is_over() -> None:
    limit, loop = time_limits.of(3), asyncio.get_running_loop()
    assert await limit.hold(_number(2), _over) == 7
    assert limit.left_s == 1
    for _ in range(2):
        with pytest.raises(errors.WaitTimedOut, match=r"^over$") as raised:
            await limit.hold(_number(2), _over)
        assert (raised.value.maybe_applied, loop.time()) == (True, 3)
    assert limit.left_s == 0


@pytest.mark.parametrize("timeout", [0, 0.0, 1e-9, 3, arguments.TIMEOUT_S_MAX, None])
def test_what_is_meant_as_a_timeout_passes(timeout: float | None) -> None:
    arguments.check_timeout(timeout)


def test_a_copy_of_its_error_says_the_same() -> None:
    over = _over()
    over.add_note("noted")
    for same in (copy.copy(over), pickle.loads(pickle.dumps(over))):
        assert (type(same), str(same), same.args) == (errors.WaitTimedOut, "over", ("over",))
        assert (same.retryable, same.maybe_applied, same.__notes__) == (True, True, ["noted"])
