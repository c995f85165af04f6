"""Nothing fails at all, with real processes: what is lost then is lost by ourselves (S01)."""

import asyncio
from pathlib import Path

import pytest

from tests.client.patience import PATIENT
from tests.support.bookie_processes import bookie_processes, make_cluster
from zonekeeper.client.api import client as clients
from zonekeeper.placement.base.ids import BookieId, LedgerId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules, Policy

pytestmark = pytest.mark.processes

ENTRIES = 100_000
TAILS = 4
ZONES = {BookieId(f"bk-{zone}-0"): ZoneName(zone) for zone in "abc"}
POLICY = Policy(
    quorums=Quorums(ensemble=3, write=3, ack=2, ack_zones=2),
    placement=PlacementRules(zones=tuple(ZONES.values())),
)


def data(number: int) -> bytes:
    return b"entry %d" % number


async def follow(address: str, ledger_id: LedgerId) -> None:
    """Tail a ledger to its end, by a client of its own; all is there, in order."""
    async with clients.connect(address, PATIENT) as client:
        reader, expected = await client.open(ledger_id, recover=False), 0
        async for entry in reader.follow():
            assert (entry.entry_id, entry.payload) == (expected, data(expected))
            expected += 1
    assert expected == ENTRIES


async def test_s01_without_faults_all_is_acknowledged_and_all_tails_agree(tmp_path: Path) -> None:
    address = f"sqlite://{tmp_path}/meta.db"
    await make_cluster(address, POLICY)
    with bookie_processes(address, tmp_path, ZONES) as bookies:
        await asyncio.to_thread(bookies.start)
        async with clients.connect(address, PATIENT) as client, asyncio.TaskGroup() as tails:
            writer = await client.create()
            for _ in range(TAILS):
                tails.create_task(follow(address, writer.ledger_id))
            for number in range(ENTRIES):
                assert await writer.append(data(number)) == number
            await writer.close()
            assert writer.last_confirmed == ENTRIES - 1
            assert client.counters.ensemble_changes == 0
        assert bookies.ended() == []
