"""A zone is lost under load, and one more bookie where the quorums allow it, with processes.

Every acknowledged entry is read, a ledger whose writer is gone is recovered, and writing goes on,
in the ledger that is open and in new ones.
"""

import pytest

from tests.zones import load
from tests.zones.world import A, Ground, Shape, world
from zonekeeper.client.api import client as clients
from zonekeeper.placement.base.quorums import Quorums

pytestmark = pytest.mark.processes

SIX = Shape(bookies_a_zone=4, quorums=Quorums(ensemble=6, write=6, ack=4, ack_zones=2))


@pytest.mark.parametrize(
    ("shape", "one_more"), [(Shape(), False), (SIX, True)], ids=["3/3/2", "6/6/4 and one more"]
)
async def test_writing_goes_on_and_all_is_read_without_a_zone(
    ground: Ground, shape: Shape, one_more: bool
) -> None:
    async with world(ground, shape=shape) as made, clients.connect(made.address) as other:
        abandoned = await other.create()
        await load.append(abandoned, 60)
        await abandoned.flush()
        left = abandoned.last_confirmed
        abandoned.halt()
        written = dict(made.load.acked)
        open_ledger = made.load.writer
        assert open_ledger is not None

        made.kill_zone(A)
        if one_more:
            made.kill(next(who for who in abandoned.ensemble if f"-{A}-" not in who))
        await made.written()
        for ledger_id, acked in written.items():
            recover = ledger_id != open_ledger.ledger_id
            await load.check(other, ledger_id, acked, recover=recover)
        await load.check(other, abandoned.ledger_id, left, recover=True)
        async with await other.create() as fresh:
            await load.append(fresh, 60)
        assert made.load.failures == []
