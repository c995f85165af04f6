"""Damage in the store: the error names the node and the store."""

from collections.abc import Awaitable, Callable

import pytest

from tests.support.stores import MemoryPlace
from zonekeeper.metadata.bookies import bookie_records, cookie_store, registration
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import (
    elections,
    policy_store,
    repair_controls,
    restored,
    zone_store,
)
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.repair_controls import PeriodicCheck
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import ledgers, underreplication
from zonekeeper.placement.base.ids import BookieId, LedgerId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location

INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"
A, SEVEN = BookieId("a"), LedgerId(7)
ELSEWHERE = Location(ZoneName("z"), UpgradeDomain("ud-0"))

Use = Callable[[Cluster], Awaitable[object]]
USES: dict[str, tuple[str, Use]] = {
    "read a ledger": ("/00/0000/L0007", lambda c: ledgers.read(c, SEVEN)),
    "change a ledger": ("/00/0000/L0007", lambda c: ledgers.change(c, SEVEN, lambda _: None)),
    "read a cookie": ("/cookies/a", lambda c: cookie_store.read(c, A)),
    "move a bookie": ("/cookies/a", lambda c: cookie_store.move(c, A, ELSEWHERE)),
    "reach a bookie": ("/available/a", lambda c: registration.read_service_info(c, A)),
    "read a mark": (
        "/underreplication/ledgers/0000/0000/0000/0007/urL0000000007",
        lambda c: underreplication.read(c, SEVEN),
    ),
    "claim a ledger": (
        "/underreplication/ledgers/0000/0000/0000/0007/urL0000000007",
        lambda c: underreplication.claim(c, SEVEN, A),
    ),
    "unmark a ledger": (
        "/underreplication/ledgers/0000/0000/0000/0007/urL0000000007",
        lambda c: underreplication.unmark(c, SEVEN, [A]),
    ),
    "read a check's time": (
        "/underreplication/replicascheckctime",
        lambda c: repair_controls.read_check_time_ms(c, PeriodicCheck.REPLICAS),
    ),
    "ask who leads": (
        "/underreplication/auditorelection/V_0000000000",
        lambda c: elections.leader(c.store, elections.auditor_votes(c)),
    ),
    "read the policy": (".zonekeeper/policy", policy_store.read),
    "read a bookie's record": (".zonekeeper/bookies/a", lambda c: bookie_records.read(c, A)),
    "read a zone's record": (
        ".zonekeeper/zones/z",
        lambda c: zone_store.read_zone(c, ZoneName("z")),
    ),
    "read the mark of a restore": (".zonekeeper/restored", restored.read),
}


@pytest.mark.parametrize(("suffix", "use"), USES.values(), ids=USES)
async def test_damage_is_named_with_its_place(memory: MemoryPlace, suffix: str, use: Use) -> None:
    cluster = await clusters.initialise(await memory.open(), INSTANCE)
    path = cluster.root.path + suffix
    await cluster.store.create(path, b"\xff\x00 no format at all", make_parents=True)
    with pytest.raises(UnreadableError) as caught:
        await use(cluster)
    assert str(caught.value).startswith(f"{path} in memory: ")
    assert caught.value.where == f"{path} in memory"
