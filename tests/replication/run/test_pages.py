"""The pages of an autorecovery process: what nobody may miss is shown in every state of it."""

import asyncio
import random

from tests.replication import recovery_lab
from tests.replication.recovery_lab import Recovering
from zonekeeper.metadata.cluster.evidence import EvidenceKind, StoreEvidence
from zonekeeper.metadata.ledgers import set_back
from zonekeeper.metadata.store.background import alongside
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.replication.run import pages
from zonekeeper.replication.run.autorecovery import Autorecovery, Worker

PROOFS = (StoreEvidence(bookie=BookieId("bk-a-0"), kind=EvidenceKind.IDS, known=50, found=9),)


@recovery_lab.played()
async def test_metadata_that_was_set_back_is_a_page_also_before_the_first_look(
    it: Recovering,
) -> None:
    """A store that was set back far enough has no policy, and then there is no look."""
    worker = Worker(name=BookieId("auto-1"), chance=random.Random(1), wall_ms=it.wall_ms)
    process = Autorecovery(it.client, worker)
    async with alongside(process.held_back.follow()):
        await set_back.mark(it.cluster, PROOFS, now_ms=1)
        async with asyncio.timeout(60):
            while not process.held_back.alerts:  # noqa: ASYNC110 in virtual time
                await asyncio.sleep(0.1)
    assert not process.view.looks
    assert '{alert="restored",severity="page",zone=""} 1' in pages.metrics(process).text
