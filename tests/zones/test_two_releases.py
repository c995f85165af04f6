"""The release before and this one work on one cluster: as bookies, on the same disks; as clients.

Bookies are changed one after the other, under writes: from this release to the one before, and back
to this one. Meanwhile a client of each release writes a ledger, and reads what the other's wrote.
"""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.support import releases
from tests.support.releases import Release
from tests.zones import load
from tests.zones.world import Ground, Shape, World, world
from zonekeeper.client.api import client as clients
from zonekeeper.placement.base.ids import EntryId, LedgerId

pytestmark = pytest.mark.processes

#: Reads ledgers and compares them, writes one, and says which. It knows nothing of the checkout.
OTHER_CLIENT: Final = """
import asyncio, json, sys
from zonekeeper.client.api import client as clients
exec(compile(open(sys.argv[1]).read().split("class Load")[0], "load", "exec"))

async def main(uri, ledgers):
    async with clients.connect(uri) as client:
        for ledger, acked in ledgers:
            reader = await client.open(ledger)
            assert reader.last_confirmed >= acked, ledger
            number = -1
            async for entry in reader.read_entries():
                number += 1
                assert bytes(entry.payload) == payload(ledger, entry.entry_id), (ledger, number)
            assert number == reader.last_confirmed
        async with client.create() as writer:
            for _ in range(60):
                entry_id = writer.last_appended + 1
                await writer.append(payload(writer.ledger_id, entry_id))
        print(json.dumps([writer.ledger_id, writer.last_confirmed]))

asyncio.run(main(sys.argv[2], json.loads(sys.argv[3])))
"""


def of_the_other_release(before: Release, made: World) -> tuple[LedgerId, EntryId]:
    """Let a client of the release before read the ledgers that are closed, and write one."""
    closed = list(made.load.acked.items())[:-1]
    script = [str(before.folder / "bin" / "python"), "-c", OTHER_CLIENT, load.__file__]
    done = subprocess.run(
        [*script, made.address, json.dumps(closed)],
        cwd=made.bookies.folder,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    ledger, last = json.loads(done.stdout)
    return LedgerId(ledger), EntryId(last)


async def test_a_release_and_the_one_before_work_on_one_cluster(
    ground: Ground, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder: Path = tmp_path_factory.mktemp("before")
    before = await asyncio.to_thread(releases.before, folder)
    ground.record("the release before", before.made_of)
    of_before = [str(before.folder / "bin" / "zonekeeper"), "bookie", "run"]

    async with world(ground, shape=Shape(bookies_a_zone=2)) as made:
        written = {}
        for command in (of_before, list(made.bookies.command)):
            for name in made.bookies.zones:
                await asyncio.to_thread(made.bookies.stop, name)
                made.bookies.launch(name, command)
                assert await asyncio.to_thread(made.bookies.is_ready, name), made.bookies.words(
                    name
                )
                await made.written(load.LEDGER_ENTRIES // 4)
            ledger, last = await asyncio.to_thread(of_the_other_release, before, made)
            written[ledger] = last
            versions = await versions_of(made)
            ours = command is not of_before
            assert (versions == {before.version}) is not ours, versions
        async with clients.connect(made.address) as client:
            for ledger, last in written.items():
                await load.check(client, ledger, last, recover=False)
        assert made.load.failures == []


async def versions_of(made: World) -> set[str]:
    """Ask every bookie for its release."""
    found = set()
    for name in made.bookies.zones:
        found.add((await (await made.client.bookies.pool.link(name)).info()).version)
    return found
