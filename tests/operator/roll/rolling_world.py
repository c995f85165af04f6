"""A world in which a roll is watched: who is away, what is declared, what stands where."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tests.operator.resources import NAME, SPACE
from tests.operator.worlds import World
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import zone_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    CLUSTER_LABEL,
    PODS,
    STATEFUL_SETS,
    Json,
)
from zonekeeper.operator.sight import observed
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.zones.maintenance import Maintenance

OLD, NEW, THIRD = "zonekeeper:1", "zonekeeper:2", "zonekeeper:3"


@asynccontextmanager
async def cluster_of(world: World) -> AsyncIterator[Cluster]:
    """Open the world's metadata as somebody else than the operator."""
    store = await world.open(await world.address())
    yield await clusters.open_cluster(store)
    await store.close()


async def bookies(world: World) -> dict[str, Json]:
    """Give the pods of bookies by name."""
    items = await world.kubernetes.list(PODS, SPACE, labels=f"{CLUSTER_LABEL}={NAME}")
    return {item["metadata"]["name"]: item for item in items}


async def uids(world: World) -> dict[str, str]:
    return {name: str(item["metadata"]["uid"]) for name, item in (await bookies(world)).items()}


async def images(world: World) -> dict[str, str]:
    """Give the image that each bookie runs."""
    return {name: observed.pod(item).image for name, item in (await bookies(world)).items()}


async def templates(world: World) -> dict[str, str]:
    """Give the image of each StatefulSet's template."""
    return {
        item["metadata"]["name"]: str(item["spec"]["template"]["spec"]["containers"][0]["image"])
        for item in await world.kubernetes.list(STATEFUL_SETS, SPACE)
    }


async def away(world: World) -> set[str]:
    """Name the bookies that are asked for, and have no pod that is ready."""
    wanted = {
        f"{item['metadata']['name']}-{number}"
        for item in await world.kubernetes.list(STATEFUL_SETS, SPACE)
        for number in range(item["spec"]["replicas"])
    }
    return {
        name
        for name in wanted
        if (item := (await bookies(world)).get(name)) is None or not observed.pod(item).ready
    }


async def declared(world: World) -> Sequence[Maintenance]:
    """Give every declaration of maintenance."""
    async with cluster_of(world) as cluster:
        found = [
            await zone_store.read_maintenance(cluster, name)
            for name in await zone_store.maintenance_names(cluster)
        ]
    return [one for one in found if one is not None]


async def roll(world: World) -> Json:
    found: Json = (await world.get())["status"].get("roll", {})
    return found


async def gates(world: World) -> list[str]:
    """Name the gates that the roll waits for."""
    return [one["gate"] for one in (await roll(world)).get("waitingFor", [])]


async def annotate(world: World, **annotations: str | None) -> None:
    """Annotate the resource as a person does; None takes an annotation off."""
    item = await world.get()
    said = item["metadata"].setdefault("annotations", {})
    for name, text in annotations.items():
        said[f"zonekeeper.io/{name}"] = text
        if text is None:
            del said[f"zonekeeper.io/{name}"]
    world.kubernetes.put(BOOKIE_CLUSTERS, item)


async def write_ledger(world: World, number: int, *ensemble: str, ack: int) -> None:
    """Let an open ledger be there whose entries these bookies hold."""
    ledger = LedgerMetadata(
        ensemble_size=len(ensemble),
        write_quorum=len(ensemble),
        ack_quorum=ack,
        fragments=(Fragment(EntryId(0), tuple(BookieId(name) for name in ensemble)),),
        digest=Digest.CRC32C,
        password=b"",
        create_token=number + 1,
    )
    async with cluster_of(world) as cluster:
        await ledgers.create(cluster, ledger, ledger_id=LedgerId(number))


class UnitsAway:
    """Watches a roll: at every turn at most one unit is away, and it is declared."""

    def __init__(self, world: World, *, upgrade_domains: int = 3) -> None:
        self._world = world
        self._domains = upgrade_domains
        #: The bookies that were seen away, in order.
        self.seen: list[frozenset[str]] = []

    async def look(self) -> None:
        """Look once; the controllers have not worked since the turn."""
        found = await away(self._world)
        units = {self._unit(name) for name in found}
        assert len(units) <= 1, f"two units are away together: {sorted(found)}"
        if found:
            assert units <= {str(one.unit) for one in await declared(self._world)}
            if self.seen[-1:] != [frozenset(found)]:
                self.seen.append(frozenset(found))

    def _unit(self, name: str) -> str:
        zone, _, ordinal = name.removeprefix(f"{NAME}-").rpartition("-")
        return str(Location(ZoneName(zone), UpgradeDomain(f"ud-{int(ordinal) % self._domains}")))
