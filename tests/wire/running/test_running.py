"""A process that serves: it hears a stop, goes down in order, and ends with one line."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from zonekeeper.placement.base.troubles import Refusal, Trouble
from zonekeeper.wire.running import last_words, running
from zonekeeper.wire.running.running import RefusedStartError, StoppedError, StopRequest

LIMIT_S = 60


def told_to_stop(number: signal.Signals = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_life_that_is_up_hears_the_stop_and_goes_down_in_its_own_order(
    number: signal.Signals,
) -> None:
    steps: list[str] = []

    async def life(stop: StopRequest) -> None:
        steps.append("up")
        told_to_stop(number)
        await stop.heard()
        steps.append("going down")
        told_to_stop(number)  # a second one changes nothing
        await asyncio.sleep(0)
        steps.append("down")

    await running.run(life, stop_limit_s=LIMIT_S)

    assert steps == ["up", "going down", "down"]


async def test_a_life_that_comes_up_turns_round_at_once() -> None:
    turned: list[str] = []

    async def life(_: StopRequest) -> None:
        told_to_stop()
        try:
            await asyncio.Event().wait()
        finally:
            turned.append("closed")

    await running.run(life, stop_limit_s=LIMIT_S)

    assert turned == ["closed"]


async def test_a_process_that_serves_leaves_no_core() -> None:
    before = resource.getrlimit(resource.RLIMIT_CORE)
    seen: list[tuple[int, int]] = []

    async def life(_: StopRequest) -> None:
        seen.append(resource.getrlimit(resource.RLIMIT_CORE))

    try:
        resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
        await running.run(life, stop_limit_s=LIMIT_S)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)

    assert seen == [(0, before[1])]


async def test_a_life_may_end_by_itself() -> None:
    async def life(_: StopRequest) -> None:
        return

    await running.run(life, stop_limit_s=LIMIT_S)


@pytest.mark.parametrize("trouble", [Trouble("the store is away"), OSError("the store is away")])
async def test_a_trouble_is_one_line_also_from_deep_inside(trouble: Exception) -> None:
    async def fail() -> None:
        raise trouble

    async def life(_: StopRequest) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail())

    with pytest.raises(StoppedError, match=r"^the store is away$") as ended:
        await running.run(life, stop_limit_s=LIMIT_S)
    assert not isinstance(ended.value, Refusal)


async def test_what_a_trouble_means_may_be_said() -> None:
    async def life(_: StopRequest) -> None:
        raise OSError(28, "no room")

    with pytest.raises(StoppedError, match="make room"):
        await running.run(life, stop_limit_s=LIMIT_S, words=lambda _: "make room")


async def test_a_start_that_is_refused_changed_nothing_and_later_it_is_no_refusal() -> None:
    async def at_start(_: StopRequest) -> None:
        raise Refusal("another bookie's disk")

    async def later(stop: StopRequest) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(stop.heard())
            await asyncio.sleep(0)
            assert stop.is_up
            raise Refusal("another cluster's root")

    with pytest.raises(RefusedStartError, match="another bookie's disk"):
        await running.run(at_start, stop_limit_s=LIMIT_S)
    with pytest.raises(StoppedError, match="another cluster's root") as ended:
        await running.run(later, stop_limit_s=LIMIT_S)
    assert not isinstance(ended.value, Refusal)


async def test_a_bug_stays_one_also_beside_a_trouble() -> None:
    async def life(_: StopRequest) -> None:
        raise ExceptionGroup("both", [Trouble("the store is away"), KeyError("a bug")])

    with pytest.raises(ExceptionGroup):
        await running.run(life, stop_limit_s=LIMIT_S)


async def test_a_life_that_is_cancelled_and_was_not_told_to_stop_does_not_end_well() -> None:
    async def life(_: StopRequest) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await running.run(life, stop_limit_s=LIMIT_S)


async def test_the_words_of_a_trouble_are_left_in_a_file_on_one_line(tmp_path: Path) -> None:
    async def life(_: StopRequest) -> None:
        raise RefusedStartError("wrong cookie:\n  another disk")

    file = tmp_path / "last-words"
    file.write_text("of an earlier start, and longer than the new ones are")
    with pytest.raises(RefusedStartError):
        await running.run(life, stop_limit_s=LIMIT_S, last_words_in=file)
    assert file.read_text() == "wrong cookie: another disk"


async def test_words_that_cannot_be_left_do_not_hide_the_trouble(tmp_path: Path) -> None:
    async def life(_: StopRequest) -> None:
        raise Trouble("the store is away")

    with pytest.raises(StoppedError, match="the store is away"):
        await running.run(life, stop_limit_s=LIMIT_S, last_words_in=tmp_path)


@pytest.mark.parametrize(
    "words", ["x" * 5_000, "x" + "\u00e4" * 5_000, "\u00e4" * 5_000, "\U0001f600" * 5_000, "\ud800"]
)
def test_last_words_fit_into_what_a_kubelet_reads(words: str) -> None:
    line = last_words.one_line(words)
    assert len(line) <= last_words.BYTES_MAX < len(line) + 4 or len(words) == 1
    line.decode()


_STUCK = """
import asyncio, logging
from zonekeeper.wire.running import last_words, running

async def life(stop):
    print("up", flush=True)
    await stop.heard()
    await asyncio.Event().wait()

logging.basicConfig()
asyncio.run(running.run(life, stop_limit_s=0.5))
"""


def test_what_does_not_go_down_in_time_is_ended() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _STUCK], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"
        child.terminate()
        _, words = child.communicate(timeout=LIMIT_S)

    assert child.returncode == 1
    assert "not stopped in order within 0.5 s" in words
