"""Real bookies on devices of different sizes: ensembles follow the room and ``weightCap``."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.client.patience import PATIENT
from tests.support.bookie_processes import COMMAND, BookieProcesses, bookie_processes, make_cluster
from tests.support.mounts import own_mounts
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client
from zonekeeper.metadata.cluster import policy_store
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.base.units import MIB
from zonekeeper.placement.policy.rules import PlacementRules, Policy

pytestmark = pytest.mark.processes

A: Final = ZoneName("a")
ONE: Final = Quorums(ensemble=1, write=1, ack=1, ack_zones=1)
SMALL, MIDDLE, ALIKE, LARGE = (BookieId(f"bk-a-{number}") for number in range(4))
SIZES: Final = {SMALL: 400 * MIB, MIDDLE: 500 * MIB, ALIKE: 500 * MIB, LARGE: 6_000 * MIB}
DRAWS: Final = 3_000
LOOK_S: Final = 0.05
#: Five minutes.
LOOKS_MAX: Final = 6_000


def launch(bookies: BookieProcesses, mounts: list[str]) -> None:
    """Start all, each on a device of its own that only it sees."""
    for name, size in SIZES.items():
        data = bookies.data(name)
        data.mkdir(parents=True)
        mount = f'mount -t tmpfs -o size={size} tmpfs {data} && exec "$0" "$@"'
        bookies.launch(name, [*mounts, "sh", "-c", mount, *COMMAND])
    for name in SIZES:
        assert bookies.is_ready(name), bookies.words(name)


def fill(bookies: BookieProcesses, name: BookieId) -> None:
    """Take nearly all that is free on a bookie's device, by another file."""
    pid = dict(zip(bookies.running(), bookies.pids(), strict=True))[name]
    folder = Path(f"/proc/{pid}/root{bookies.data(name)}")
    found = os.statvfs(folder)
    with (folder / "ballast").open("wb") as file:
        size = found.f_bavail * found.f_frsize - SIZES[name] // 50
        os.posix_fallocate(file.fileno(), 0, size)


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(LOOKS_MAX):
        if holds():
            return
        await asyncio.sleep(LOOK_S)
    raise AssertionError("it never came")


def shares(client: Client) -> dict[BookieId, float]:
    """Give how often each bookie is chosen, of 1."""
    drawn = Counter(client.bookies.choose(ONE)[0] for _ in range(DRAWS))
    return {name: drawn[name] / DRAWS for name in SIZES}


def weights(client: Client, cap: float) -> dict[BookieId, float]:
    """Give each bookie's share of the weight, worked out from the rooms that the client knows."""
    free = {one.id: one.free_bytes or 0 for one in client.bookies.topology}
    known = sorted(free.values())
    most = cap * (known[1] + known[2]) / 2 if cap else float("inf")
    capped = {name: min(size, most) for name, size in free.items()}
    return {name: weight / sum(capped.values()) for name, weight in capped.items()}


async def set_cap(client: Client, cap: float) -> None:
    standing = client.bookies.policy
    rules = replace(standing.placement, weight_cap=cap)
    await policy_store.write(
        client.cluster, replace(standing, placement=rules), replaces=standing.version
    )
    await until(lambda: client.bookies.policy.version > standing.version)


async def test_s128_real_bookies_are_chosen_by_room_and_the_policy_caps_it(tmp_path: Path) -> None:
    if not (mounts := own_mounts()):
        pytest.skip("this machine lets no process have mounts of its own")
    address = f"sqlite://{tmp_path}/meta.db"
    rules = PlacementRules(zones=(A,), min_zones=1, desired_zones=1, strict=False)
    await make_cluster(address, Policy(placement=rules, quorums=ONE))
    flags = {"--disk-check-interval": "200ms"}
    zones = dict.fromkeys(SIZES, A)
    with bookie_processes(address, tmp_path, zones, flags=flags) as bookies:
        await asyncio.to_thread(launch, bookies, mounts)
        async with clients.connect(address, PATIENT) as client:
            topology = client.bookies.topology
            for name, size in SIZES.items():
                known = topology.get(name)
                assert known is not None
                assert known.total_bytes == size
                said = await (await client.bookies.pool.link(name)).info()
                assert known.free_bytes == pytest.approx(said.free_bytes, rel=0.2)

            found: dict[BookieId, float] = {}
            for cap in (3, 1, 0):
                await set_cap(client, cap)
                expected = weights(client, cap)
                found = shares(client)
                assert found == pytest.approx(expected, abs=0.05)
            assert found[LARGE] > 0.75, "without a cap nearly all goes to the large one"

            # A device that fills at once: its room was published as free, and no ledger goes there.
            await set_cap(client, 1)
            assert shares(client)[SMALL] > 0.1
            await asyncio.to_thread(fill, bookies, SMALL)
            await until(lambda: not accepts(client, SMALL))
            assert shares(client)[SMALL] == 0


def accepts(client: Client, name: BookieId) -> bool:
    known = client.bookies.topology.get(name)
    return known is not None and known.accepts_ensembles
