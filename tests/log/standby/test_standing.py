"""What all logs of one standby share: which nodes are taken away, and when."""

import asyncio

from tests.client.lab import Lab, played
from tests.log.standby_lab import SMALL
from zonekeeper.log.standby.standing import StandbySession
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.logs import log_candidates
from zonekeeper.metadata.logs.log_candidate import CandidateMark
from zonekeeper.metadata.store.background import alongside
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.placement.base.ids import ZoneName

MINE = "0a" * 16
LOG_ID = "0f" * 16
ZONE = ZoneName("a")
NAMES = [f"orders/log-{number}" for number in range(10)]


async def session_of_many(cluster: Cluster) -> StandbySession:
    mark = CandidateMark(candidacy=MINE, log_id=LOG_ID, zone=ZONE, zones=(ZONE,))
    session = cluster.store.session.id
    assert session is not None
    for name in NAMES:
        await log_candidates.stand(cluster, name, "host-1", mark, session)
    return StandbySession(
        cluster=cluster, candidate="host-1", candidacy=MINE, zone=ZONE, address=""
    )


async def standing_for(cluster: Cluster) -> list[str]:
    looks = {one: await log_candidates.look(cluster, one, LOG_ID) for one in NAMES}
    return [name for name, look in looks.items() if look.candidates]


@played(bookies_in=SMALL)
async def test_a_candidate_that_stays_is_not_taken_away_with_others(lab: Lab) -> None:
    """It takes its next turn while the nodes before its own are taken away."""
    cluster = await lab.cluster()
    store = cluster.store
    assert isinstance(store, MemoryStore)
    shared = await session_of_many(cluster)
    for name in NAMES:
        shared.leave_soon(name, 1)
    async with alongside(shared.sweep()):
        store.cut()
        await asyncio.sleep(2)
        assert list(shared.left) == NAMES, "the first one is under way"
        shared.stay(NAMES[-1])
        store.mend()
        await asyncio.sleep(10)
        assert await standing_for(cluster) == NAMES[-1:]
        shared.leave_soon(NAMES[-1])
        await asyncio.sleep(10)
        assert await standing_for(cluster) == []
