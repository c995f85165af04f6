"""A bookie in a process of its own is killed, and stopped, in the middle of appends."""

import asyncio
import dataclasses
import random
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.checkout_root import ROOT
from tests.wire.link.worlds import (
    BOOKIE,
    PATIENT,
    Outcomes,
    Writer,
    acked_in_time,
    opened,
    patiently,
)
from zonekeeper.wire.contract.links import AppendLane, LinkSettings
from zonekeeper.wire.formats import errors
from zonekeeper.wire.grpc import grpc_link
from zonekeeper.wire.link.stream_link import StreamLink

pytestmark = pytest.mark.processes


@pytest.fixture
def bookie() -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = [sys.executable, "-m", "tests.wire.link.bookie_process"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def connect(port: int, tasks: asyncio.TaskGroup, settings: LinkSettings) -> StreamLink:
    return grpc_link.connect(
        BOOKIE,
        f"127.0.0.1:{port}",
        credentials=None,
        tasks=tasks,
        chance=random.Random(1),
        settings=settings,
    )


async def write_until_acked(
    writer: Writer, lane: AppendLane, outcomes: Outcomes, count: int
) -> int:
    """Keep the link full until so many acks have come; give how many frames it took."""
    frame, taken = writer.frame(b"x" * 100_000), 0
    while len(outcomes.acked_order) < count:
        rooms = outcomes.rooms + 1
        try:
            lane.append(frame)
        except errors.TooManyRequests:
            await outcomes.until(lambda rooms=rooms: outcomes.rooms >= rooms)  # type: ignore[misc]  # the default binds the loop's variable
        else:
            taken, frame = taken + 1, writer.frame(b"x" * 100_000)
    return taken


def test_a_killed_bookie_leaves_no_frame_without_an_outcome(
    bookie: tuple[subprocess.Popen[str], int],
) -> None:
    process, port = bookie

    async def main() -> None:
        async with asyncio.timeout(300), asyncio.TaskGroup() as tasks:
            link = connect(port, tasks, dataclasses.replace(PATIENT, budget_bytes=4 << 20))
            writer, lane, outcomes = await opened(link, 7)
            taken = await write_until_acked(writer, lane, outcomes, 20)
            process.kill()
            await outcomes.all_of(taken)
            assert sorted([*outcomes.acked_order, *outcomes.failures]) == list(range(taken))
            kinds = {type(error) for error in outcomes.failures.values()}
            assert kinds <= {errors.ConnectionLost, errors.NotConnected}
            with pytest.raises((errors.NotConnected, errors.ConnectionLost)):
                await opened(link, 7)
            await link.close()

    asyncio.run(main())


def test_a_stopped_bookie_is_found_out_by_the_deadline_and_goes_on_where_it_was(
    bookie: tuple[subprocess.Popen[str], int],
) -> None:
    process, port = bookie

    async def main() -> None:
        async with asyncio.timeout(300), asyncio.TaskGroup() as tasks:
            settings = dataclasses.replace(PATIENT, append_timeout_ms=1_000, call_timeout_ms=200)
            link = connect(port, tasks, settings)
            writer, lane, outcomes = await patiently(link, 7)
            process.send_signal(signal.SIGSTOP)
            stopped = lane.append(writer.frame(b"zero"))
            with pytest.raises(errors.Timeout):
                await link.info()
            await outcomes.all_of(1)
            assert isinstance(outcomes.failures[stopped], errors.Timeout)
            process.send_signal(signal.SIGCONT)
            number = await acked_in_time(writer, lane, outcomes)
            assert outcomes.acked_order == [number]
            await link.close()

    asyncio.run(main())
