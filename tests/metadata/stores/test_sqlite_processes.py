"""Processes that are stopped and killed on a SQLite store."""

import asyncio
import json
import random
import sqlite3
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest

from tests.support.python_process import PythonProcess, processes
from tests.support.stores import SqlitePlace
from zonekeeper.metadata.store import errors
from zonekeeper.metadata.stores.timeouts import Timeouts

pytestmark = pytest.mark.processes

_KILLS = 12

#: Short, since its end is waited for; but no busy machine keeps a process from renewing so long.
_LEASE_MS = 4_000


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[SqlitePlace]:
    opened = SqlitePlace(tmp_path)
    yield opened
    await opened.close()


async def _stop_between_transactions(process: PythonProcess, place: SqlitePlace) -> None:
    """Stop a process that does not hold the lock: with it in hand it would keep its lease."""
    prober = await place.open(Timeouts(request_ms=1_000))
    for number in count():
        process.stop()
        try:
            await prober.create(f"{place.root}/probe-{number}")
        except errors.StoreUnavailableError:
            process.go_on()
        else:
            return


async def test_who_is_stopped_past_his_lease_finds_out_before_he_writes(
    place: SqlitePlace,
) -> None:
    store = await place.open()
    await store.create(f"{place.root}/record", b"as it was")
    with processes() as running:
        lessee = PythonProcess("tests.support.lessee", place.uri, str(_LEASE_MS))
        running.append(lessee)
        assert await asyncio.to_thread(lessee.line) == "held"
        async with store.watch(f"{place.root}/held") as states:
            assert await anext(states) is not None
            lessee.say("write")
            before = json.loads(await asyncio.to_thread(lessee.line))
            await _stop_between_transactions(lessee, place)
            # Another process's write, or renewal, ends the lease: no request has to ask for it.
            gone = await anext(states)
        record = await store.get(f"{place.root}/record")
        assert record is not None
        await store.put(f"{place.root}/record", b"by the next holder", version=record.version)
        lessee.say("write")
        lessee.go_on()
        after = json.loads(await asyncio.to_thread(lessee.line))
    assert before == {"bound": ["written", True, False], "free": ["written", True, False]}
    assert gone is None
    assert after["bound"] == ["SessionLostError", False, True]
    # Bound to nothing, it is written in a new session or not at all: never without knowing.
    assert after["free"][2]


async def test_killed_writers_leave_no_half_write_and_lose_no_acknowledged_one(
    place: SqlitePlace,
) -> None:
    store = await place.open()
    for side in ("left", "right"):
        await store.create(f"{place.root}/{side}")
    chance = random.Random(7)
    with processes() as running:
        for _ in range(_KILLS):
            writer = PythonProcess("tests.support.pairs", place.uri)
            running.append(writer)
            acknowledged = 0
            for _ in range(chance.randrange(1, 60)):
                acknowledged = int(await asyncio.to_thread(writer.line))
            writer.kill()
            for line in await asyncio.to_thread(writer.rest):
                acknowledged = int(line)
            left = await store.get(f"{place.root}/left")
            right = await store.get(f"{place.root}/right")
            assert left is not None
            assert right is not None
            assert (left.value, left.version) == (right.value, right.version)
            assert left.version in (acknowledged, acknowledged + 1)
            assert left.value == b"%d " % left.version * 2_000
    checked = sqlite3.connect(place.path)
    assert checked.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    checked.close()
