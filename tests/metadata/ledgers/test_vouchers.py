"""A repair's voucher: under its claim only, for one start, and gone with the repair."""

import pytest

from tests.metadata import weather
from tests.support.stores import MemoryPlace
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.ledgers import underreplication, vouchers
from zonekeeper.metadata.ledgers.underreplication import Claim
from zonekeeper.metadata.ledgers.vouchers import Voucher
from zonekeeper.metadata.store.errors import NoNodeError, SessionLostError
from zonekeeper.metadata.stores.memory import ExchangeLoss
from zonekeeper.placement.base.ids import BookieId, LedgerId

INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"
A, ME, YOU = (BookieId(name) for name in ("a", "me", "you"))
L7 = LedgerId(7)


async def claimed(cluster: Cluster, worker: BookieId = ME) -> Claim:
    await underreplication.mark(cluster, L7, [A], at_ms=1)
    claim = await underreplication.claim(cluster, L7, worker)
    assert claim is not None
    return claim


async def test_what_a_repair_vouches_for_is_read_by_the_bookie_and_taken_back(
    cluster: Cluster, other: Cluster
) -> None:
    claim = await claimed(cluster)
    assert await vouchers.read(other, L7, A) is None
    await vouchers.vouch(cluster, claim, A, 3)
    assert await vouchers.read(other, L7, A) == Voucher(boot_epoch=3)
    assert await vouchers.read(other, LedgerId(8), A) is None
    assert await vouchers.read(other, L7, YOU) is None
    await vouchers.vouch(cluster, claim, A, 4)
    assert await vouchers.read(other, L7, A) == Voucher(boot_epoch=4)
    await vouchers.take_back(cluster, claim, A)
    assert await vouchers.read(other, L7, A) is None
    await vouchers.take_back(cluster, claim, A)


async def test_a_repair_whose_claim_is_over_vouches_for_nothing(cluster: Cluster) -> None:
    claim = await claimed(cluster)
    await underreplication.release(cluster, claim)
    with pytest.raises(NoNodeError):
        await vouchers.vouch(cluster, claim, A, 3)
    assert await vouchers.read(cluster, L7, A) is None


async def test_a_voucher_goes_with_the_session_of_its_repair(memory: MemoryPlace) -> None:
    cluster = await clusters.initialise(await memory.open(), INSTANCE)
    other = await clusters.open_cluster(await memory.open())
    claim = await claimed(cluster)
    await vouchers.vouch(cluster, claim, A, 3)
    memory.server.expire(claim.session)
    assert await vouchers.read(other, L7, A) is None
    with pytest.raises(SessionLostError):
        await vouchers.vouch(cluster, claim, A, 3)


async def test_a_voucher_that_an_earlier_repair_left_is_replaced(
    cluster: Cluster, other: Cluster
) -> None:
    """Its process released the claim, lives on, and never took the voucher back."""
    earlier = await claimed(other, YOU)
    await vouchers.vouch(other, earlier, A, 3)
    await underreplication.release(other, earlier)
    claim = await claimed(cluster)
    await vouchers.vouch(cluster, claim, A, 3)
    await vouchers.take_back(other, earlier, A)
    assert await vouchers.read(other, L7, A) == Voucher(boot_epoch=3), "it is another one's now"
    await vouchers.take_back(cluster, claim, A)
    assert await vouchers.read(other, L7, A) is None


@pytest.mark.parametrize("loss", [ExchangeLoss.ANSWER, ExchangeLoss.REQUEST])
@pytest.mark.parametrize("number", range(4))
async def test_vouching_in_doubt_ends_clean(
    memory: MemoryPlace, number: int, loss: ExchangeLoss
) -> None:
    store = await memory.open()
    cluster = await clusters.initialise(store, INSTANCE)
    claim = await claimed(cluster)
    weather.lose(store, number, loss)
    await vouchers.vouch(cluster, claim, A, 3)
    assert await vouchers.read(cluster, L7, A) == Voucher(boot_epoch=3)
    await vouchers.take_back(cluster, claim, A)
    assert await vouchers.read(cluster, L7, A) is None
