"""``zonekeeper log candidates`` and ``handover`` against candidates in a thread."""

import asyncio
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager

import pytest

from tests.client.patience import PATIENT
from tests.shell.log_world import call, data, done, refused
from zonekeeper.log import LogStandby, connect
from zonekeeper.shell.reaching import last_seen, seen_logs

pytestmark = pytest.mark.processes

NAME = "standby/a"


@contextmanager
def standing(address: str) -> Iterator[None]:
    """Let a candidate of zone a write, and one of zone b stand, in a thread."""
    ready, ends = Future[None](), threading.Event()

    async def take_turns(standby: LogStandby) -> None:
        while True:
            async with standby.turn(NAME, ["a", "b"]) as turn:
                await turn.over()

    async def stand() -> None:
        async with (
            connect(address, PATIENT) as logs,
            logs.standby("host-1", zone="a", address="10.0.0.1:70") as first,
            logs.standby("host-2", zone="b") as second,
            asyncio.TaskGroup() as group,
        ):
            tasks = [group.create_task(take_turns(first))]
            while first.counts.writing == 0:  # noqa: ASYNC110 a look from outside
                await asyncio.sleep(0.02)
            tasks.append(group.create_task(take_turns(second)))
            while not second.stands_for(NAME):  # noqa: ASYNC110 a look from outside
                await asyncio.sleep(0.02)
            ready.set_result(None)
            await asyncio.to_thread(ends.wait)
            for task in tasks:
                task.cancel()

    thread = threading.Thread(target=asyncio.run, args=(stand(),))
    thread.start()
    try:
        ready.result(60)
        yield
    finally:
        ends.set()
        thread.join()


def candidates_known(address: str) -> Sequence[str]:
    """Give what completion knows."""
    seen = seen_logs.recall(seen_logs.cache_folder(os.environ), last_seen.store_name(address))
    assert seen is not None
    return seen.candidates(NAME)


def test_a_log_is_handed_over_and_the_pause_is_printed(address: str) -> None:
    done(address, "create", NAME)
    assert "no candidate host-2; its candidates are: none" in refused(
        address, "handover", NAME, "--to", "host-2"
    )
    assert done(address, "candidates", NAME) == b""
    with standing(address):
        assert done(address, "candidates", NAME) == (
            b"host-1: zone a, writes, address 10.0.0.1:70\nhost-2: zone b\n"
        )
        assert candidates_known(address) == ("host-1", "host-2")
        assert "host-1 writes log standby/a already" in refused(
            address, "handover", NAME, "--to", "host-1"
        )
        said = done(address, "handover", NAME, "--to", "host-2", "--timeout", "1m").decode()
        assert said.startswith(
            "log standby/a: handed over from host-1 to host-2; no writer for "
        ), said
        assert said.endswith(" ms\n")
        answer = data(address, "handover", NAME, "--to", "host-1")
        pause = answer.pop("pauseMs")
        assert isinstance(pause, int)
        assert pause >= 0
        assert answer == {"log": NAME, "from": "host-2", "to": "host-1"}
        shown = data(address, "show", NAME)
        assert shown["writer"] == {"zone": "a", "address": "10.0.0.1:70"}


def test_a_log_that_is_not_there_has_no_candidates(address: str) -> None:
    assert "there is no log standby/none" in refused(address, "candidates", "standby/none")
    assert "there is no log" in refused(address, "handover", "standby/none", "--to", "x")
    assert call(address, "handover", "standby/none").exit_code == 2
