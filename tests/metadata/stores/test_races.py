"""Many processes at one store: what each was told, taken together, could be."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support import zookeeper
from tests.support.histories import Append, Outcome, Read, violations
from tests.support.python_process import PythonProcess, processes
from tests.support.race import append, read, tokens
from tests.support.stores import Place, ZooKeeperPlace, asked_for
from zonekeeper.metadata.store.store import MetadataStore
from zonekeeper.metadata.stores.timeouts import Timeouts

pytestmark = pytest.mark.processes

_RACERS = 20
_ROUNDS = 15


@pytest.fixture(params=["sqlite", "zookeeper"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with asked_for(request, tmp_path) as opened:
        yield opened


async def test_twenty_processes_race_and_every_history_could_be(place: Place) -> None:
    store = await place.open()
    await store.create(f"{place.root}/list")
    await store.create(f"{place.root}/numbers")
    with processes() as racers:
        for n in range(_RACERS):
            racers.append(PythonProcess("tests.support.race", place.uri, f"p{n}", str(_ROUNDS)))
        for racer in racers:
            assert await asyncio.to_thread(racer.line) == "ready"
        await store.create(f"{place.root}/go")
        told = [json.loads(await asyncio.to_thread(racer.line)) for racer in racers]

    appends = [
        Append(**each | {"outcome": Outcome(each["outcome"])})
        for one in told
        for each in one["appends"]
    ]
    reads = [Read(**each | {"seen": tuple(each["seen"])}) for one in told for each in one["reads"]]
    last = tokens(await store.get(f"{place.root}/list", sync=True))
    assert violations(appends, reads, last) == []
    assert [each for each in appends if each.outcome is not Outcome.YES] == []
    numbers = [number for one in told for number in one["numbers"]]
    assert len(set(numbers)) == len(numbers) == _RACERS * _ROUNDS
    for one in told:
        assert one["numbers"] == sorted(one["numbers"]), "later is higher, for each process"


_WRITERS = 3
_KILLS = 3
#: Between one kill and the next, so many appends must get through: that is what "goes on" means.
_APPENDS_BETWEEN = 20


async def test_leaders_die_during_appends_and_nothing_is_lost_or_made_twice() -> None:
    with zookeeper.quorum() as ensemble:
        place = ZooKeeperPlace(ensemble.addresses)
        # A connection that hangs is given up long before a call; an election may take its time.
        timeouts = Timeouts(session_ms=15_000, request_ms=30_000)
        stores = [await place.open(timeouts) for _ in range(_WRITERS)]
        path = f"{place.root}/list"
        await stores[0].create(path)
        appends: list[Append] = []
        reads: list[Read] = []
        progress = asyncio.Condition()

        async def write(store: MetadataStore, name: str) -> None:
            n = 0
            while True:
                appends.append(await append(store, path, f"{name}-{n}"))
                reads.append(await read(store, path))
                n += 1
                async with progress:
                    progress.notify_all()

        async def go_on() -> None:
            wanted = len(appends) + _APPENDS_BETWEEN
            async with progress:
                await progress.wait_for(lambda: len(appends) >= wanted)

        async with asyncio.TaskGroup() as group:
            writers = [group.create_task(write(store, f"w{n}")) for n, store in enumerate(stores)]
            for _ in range(_KILLS):
                await go_on()
                leader = await asyncio.to_thread(ensemble.leader)
                await asyncio.to_thread(leader.kill)
                await go_on()
                leader.start()
                await asyncio.to_thread(ensemble.wait_until_ready)
            for writer in writers:
                writer.cancel()
        # Appends that the end of the test interrupted are of unknown outcome.
        known = {each.token for each in appends}
        last = tokens(await stores[0].get(path, sync=True))
        appends += [
            Append(token=token, began=0, ended=0, outcome=Outcome.UNKNOWN)
            for token in last
            if token not in known
        ]
        assert violations(appends, reads, last) == []
        assert len(appends) - len(known) <= _WRITERS
        assert {each.outcome for each in appends if each.token in known} == {Outcome.YES}
        await place.close()
