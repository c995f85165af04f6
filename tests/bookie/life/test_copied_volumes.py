"""A volume that was copied or set back: a bookie serves from the last state of its disk."""

import asyncio
import shutil
import signal

import pytest

from tests.bookie.life.process_world import (
    BOOKIE,
    LIMIT_S,
    World,
    append_all,
    linked,
    refused,
    started,
)
from tests.support.mounts import own_mounts
from zonekeeper.metadata.bookies import registration

pytestmark = pytest.mark.processes


async def test_a_disk_that_was_set_back_to_a_snapshot_is_refused(world: World) -> None:
    async with started(world) as bookie:
        assert await bookie.end(signal.SIGTERM) == 0
    snapshot = world.folder / "snapshot"
    shutil.copytree(world.data, snapshot)
    async with started(world) as bookie, linked(bookie) as link:
        await append_all(link, range(5))
        assert await bookie.end(signal.SIGTERM) == 0
    shutil.rmtree(world.data)
    snapshot.rename(world.data)

    code, said = await refused(world.arguments())

    assert (code, "the disk was set back to an older state" in said) == (2, True)


async def test_s116_the_first_of_two_starts_on_copied_volumes_ends(world: World) -> None:
    """As on two nodes: the second finds the copy where the first has its volume."""
    if not (mounts := own_mounts()):
        pytest.skip("this machine lets no process have mounts of its own")
    copy = world.folder / "copy"
    elsewhere = [*mounts, "sh", "-c", f'mount --bind {copy} {world.data} && exec "$0" "$@"']
    async with started(world) as first, linked(first) as link:
        await append_all(link, range(5))
        shutil.copytree(world.data, copy)
        async with started(world, elsewhere) as second:
            assert second.boot == first.boot + 1
            async with asyncio.timeout(LIMIT_S):
                _, said = await first.process.communicate()
            assert first.process.returncode == 1
            assert "is of start 2 of bk-a-4, and this is start 1" in said.decode()
            async with world.cluster() as cluster:
                info = await registration.read_service_info(cluster, BOOKIE)
            assert info is not None
            assert info.boot_epoch == second.boot, "the first took nothing from the second"

    code, words = await refused(world.arguments())
    assert (code, "or is a copy" in words) == (2, True)
