"""A world whose bookies publish their rooms, and whose volumes fill."""

from pathlib import Path
from typing import Final

from tests.operator.resources import SPACE
from tests.operator.roll.rolling_world import cluster_of
from tests.operator.volumes import volume_world
from tests.operator.volumes.volume_world import VolumeWorld
from zonekeeper.metadata.formats import service_info
from zonekeeper.metadata.formats.service_info import PublishedRoom, ServiceInfo
from zonekeeper.operator.kubernetes.api import CLAIMS, Json
from zonekeeper.operator.shapes import quantities
from zonekeeper.operator.sight.room_sight import READ_EVERY_MS
from zonekeeper.placement.base.ids import BookieId

MIB: Final = 1 << 20
GROW: Final[Json] = {"grow": {"max": "2Gi"}}
FULL: Final = "log-b-1"
CLAIM: Final = f"data-{FULL}"


class FillingWorld(VolumeWorld):
    """Each bookie says what its volume has, and what is free of it."""

    def __init__(self, folder: Path | None = None, **spec: object) -> None:
        super().__init__(folder, **{"heal": GROW, **spec})
        #: What bookies hold, in MiB.
        self.held: dict[str, int] = {}
        #: Rooms that bookies say instead; None: the bookie says none.
        self.said: dict[str, PublishedRoom | None] = {}
        #: Do bookies publish what has changed?
        self.publishes = True

    async def controllers(self) -> None:
        await super().controllers()
        if self.publishes:
            await self.publish()

    async def publish(self) -> None:
        """Let each bookie that is registered say its room, if that has changed."""
        if not self.registered:
            return
        async with cluster_of(self) as cluster:
            for name in sorted(self.registered):
                room = self.said[name] if name in self.said else await self._room(name)
                info = service_info.render(ServiceInfo(endpoints=()).with_room(room))
                found = await cluster.store.get(cluster.root.writable(BookieId(name)), sync=True)
                if found is not None and found.value != info:
                    path = cluster.root.writable(BookieId(name))
                    await cluster.store.put(path, info, version=found.version)

    async def _room(self, name: str) -> PublishedRoom | None:
        claim = await self.kubernetes.get(CLAIMS, SPACE, f"data-{name}")
        if claim is None or "status" not in claim:
            return None
        total = int(quantities.value(claim["status"]["capacity"]["storage"]) or 0)
        free = max(0, total - self.held.get(name, 0) * MIB)
        return PublishedRoom(free_bytes=free, total_bytes=total)

    async def fill(self, name: str, mebibytes: int) -> None:
        """Let a bookie hold so much, and the operator read rooms anew."""
        await self.fill_unseen(name, mebibytes)
        self.now_ms += READ_EVERY_MS

    async def fill_unseen(self, name: str, mebibytes: int) -> None:
        """Let a bookie hold so much."""
        self.held[name] = mebibytes
        await self.publish()

    async def size(self, claim: str = CLAIM) -> str:
        """Give what a claim asks for."""
        return (await volume_world.sizes(self))[claim]

    async def others(self, claim: str = CLAIM) -> set[str]:
        """Give what all other claims ask for."""
        return {size for name, size in (await volume_world.sizes(self)).items() if name != claim}

    async def growing(self) -> Json:
        """Give ``status.growing``."""
        found: Json = (await self.get())["status"].get("growing", {})
        return found


async def built(**spec: object) -> FillingWorld:
    """Give a cluster whose volumes are empty."""
    world = FillingWorld(None, **spec)
    await world.settle()
    return world
