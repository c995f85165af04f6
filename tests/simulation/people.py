"""What people do to a simulated cluster, by the same functions as their commands."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Final

from tests.simulation import actors
from tests.simulation import history as seen
from tests.simulation.actors import Observer
from tests.simulation.machine import DATA, Machine
from tests.simulation.scenarios import Fault
from tests.simulation.surroundings import Surroundings
from zonekeeper.bookie.tools import replacing
from zonekeeper.bookie.tools.folders import ToolError
from zonekeeper.client.base import errors
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import policy_store, zone_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.base.ids import LedgerId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.zones import watch
from zonekeeper.placement.zones.gate import Person, RefusedError, Token
from zonekeeper.placement.zones.maintenance import Maintenance
from zonekeeper.placement.zones.zone_records import ZoneRecord

Doing = Callable[[Surroundings, Fault], Coroutine[None, None, None]]

_AGAIN_MS: Final = 500

_PERSON: Final = Person(name="a person", reason="ordered by the scenario")


async def release(around: Surroundings, fault: Fault) -> None:
    """Let a zone's losses be repaired; nothing is done where nothing is held."""

    async def do(cluster: Cluster) -> None:
        policy = await policy_store.read(cluster)
        assert policy is not None

        def decide(record: ZoneRecord | None) -> ZoneRecord | None:
            if record is None or record.gate.permits:
                return record
            token = record.gate.token
            now_ms = around.now_ms()
            return watch.release(
                record, token=token, person=_PERSON, policy=policy, wall_ms=now_ms
            )[0]

        with suppress(RefusedError):
            await zone_store.change_zone(cluster, ZoneName(fault.target), decide)

    await _with_cluster(around, do)


async def maintain(around: Surroundings, fault: Fault) -> None:
    """Declare maintenance of a bookie's unit, and lift it when its time is up."""
    _, zone, ordinal = fault.target.split("-")
    declared = Maintenance(
        unit=Location(ZoneName(zone), UpgradeDomain(f"ud-{int(ordinal) % 3}")),
        token=Token(f"at {fault.at_ms}"),
        declared_by=_PERSON,
        lasts_ms=2 * fault.for_ms,
    )

    async def do(cluster: Cluster) -> None:
        await zone_store.declare(cluster, declared)
        await asyncio.sleep(fault.for_ms / 1_000)
        await zone_store.lift(cluster, declared)

    await _with_cluster(around, do)


async def delete(around: Surroundings, observer: Observer, ledger_id: LedgerId) -> bool:
    """Recover a ledger and delete it; False: it is not known whether that is done."""
    store, chance = around.open_store("a person"), around.scenario.chance(f"deletes {ledger_id}")
    try:
        async with actors.client_of(around, "a person", store, chance) as client:
            reader = await client.open(
                ledger_id, password=observer.password(ledger_id), recover=True
            )
            around.note(seen.Deleted(ledger=ledger_id, last=reader.metadata.last_entry))
            await client.delete(ledger_id)
    except (errors.ClientError, StoreError):
        return False
    finally:
        await store.close()
    return ledger_id not in observer.ledgers


async def replace_disk(around: Surroundings, machine: Machine, after_ms: int) -> None:
    """Give a bookie that lost its disk an empty one, as soon as it is not registered any more."""
    await asyncio.sleep(after_ms / 1_000)

    async def do(cluster: Cluster) -> None:
        with suppress(ToolError):  # it is registered until its session ends
            machine.get_disk(await replacing.look(cluster, machine.id, DATA))

    while machine.diskless:
        await _with_cluster(around, do)
        await asyncio.sleep(_AGAIN_MS / 1_000)


async def _with_cluster(
    around: Surroundings, do: Callable[[Cluster], Coroutine[None, None, None]]
) -> None:
    store = around.open_store("a person")
    with suppress(StoreError):
        await do(await clusters.open_cluster(store))
    await store.close()
