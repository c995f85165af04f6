"""The story of the demonstration: the losses of a cluster under load, and their figures.

Each part is announced before it is played. A part waits for the events that it is about, never for
a time alone, and each wait has a limit. The story gives figures; ``demo_summary`` judges whether
they keep the promises.
"""

import asyncio
import shutil
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from zonekeeper.client.api.client import Client
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.zones.gate import Person
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.replication.audit.auditor_metrics import AuditorMetrics
from zonekeeper.replication.audit.replica_reading import ReplicaReader
from zonekeeper.replication.gate import permitting, releasing
from zonekeeper.replication.gate.permitting import GateRequest
from zonekeeper.replication.view import listing
from zonekeeper.replication.view.pace import BytePace as ReadPace
from zonekeeper.replication.view.view import View
from zonekeeper.shell.demo.demo_load import Load
from zonekeeper.shell.demo.demo_screen import Screen
from zonekeeper.shell.demo.demo_summary import BookieLoss, Copies, Outage, ZoneLoss, megabytes
from zonekeeper.shell.demo.demo_watch import DemoWatch
from zonekeeper.shell.local import local_shape
from zonekeeper.shell.local.local_cluster import LocalCluster
from zonekeeper.shell.local.local_folder import LocalError
from zonekeeper.shell.local.local_shape import Shape
from zonekeeper.shell.reaching import reaching
from zonekeeper.shell.reports import preflight_text
from zonekeeper.shell.reports.preflight_text import PreflightSeen

#: Any single wait ends sooner than this, or has failed.
_WITHIN_S: Final = 60.0

_SHAPE: Final = Shape()
#: No autorecovery process runs in this zone, so all of them live to the end of the story.
_ZONE: Final = local_shape.zones(_SHAPE)[-1]
_PERSON: Final = Person(name="demo", reason=f"zone {_ZONE} has burnt down")


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPace:
    """The time for which each part is watched, in seconds."""

    calm: float = 4
    #: Added to the time after which the losses of a bookie alone would have been repaired.
    held: float = 2
    back: float = 4
    repaired: float = 2


class Story:
    """The parts of the story, played on a cluster to which entries are written."""

    def __init__(
        self, cluster: LocalCluster, client: Client, view: View, watch: DemoWatch, screen: Screen
    ) -> None:
        self._cluster = cluster
        self.client = client
        self._view = view
        self.watch = watch
        self._screen = screen

    async def lose_bookie(self, load: Load, pace: DemoPace) -> BookieLoss:
        """Kill a bookie, and wait until its copies are made anew."""
        screen, watch = self._screen, self.watch
        screen.step(
            "2. A log is written: 1,000 entries a second",
            "A pencil stands at the bookies that get each entry now.",
        )
        await watch.until(
            lambda: all(not watch.is_held(zone) for zone in local_shape.zones(_SHAPE)),
            "all zones are seen to be up",
            _WITHIN_S,
        )
        await asyncio.sleep(pace.calm)
        victim = next(one for one in load.ensemble if _zone(one) != _ZONE)
        moved_bytes = await watch.moved_bytes()
        screen.step(
            f"3. A bookie dies: {victim}",
            "Writing goes on: another bookie of the zone takes its place. The dead bookie "
            "does not come back, so its entries are soon copied to others. No person has to "
            "order it.",
        )
        load.part("a bookie is dead")
        begun_s = screen.seconds
        await self._cluster.kill(victim)
        screen.struck(f"kill -9: {victim}")
        await watch.until(
            lambda: victim in self._view.written_off, f"{victim} is repaired", _WITHIN_S
        )
        found = BookieLoss(
            bookie=victim,
            moved_bytes=await watch.moved_bytes() - moved_bytes,
            seconds=screen.seconds - begun_s,
        )
        screen.happened(
            f"all that {victim} held has its copies again: {megabytes(found.moved_bytes)} copied",
            "bold green",
        )
        await asyncio.sleep(pace.repaired)
        return found

    async def lose_zone_for_a_while(self, load: Load, pace: DemoPace) -> Outage:
        """Kill a zone, check that nothing is copied, and start the zone again."""
        screen, watch = self._screen, self.watch
        screen.step(
            f"4. A zone goes away: {_ZONE}",
            "Writing goes on in two zones. To copy everything that the zone holds would be "
            "expensive, and most zones are back soon. So its repair is held, and no byte is moved.",
        )
        load.part("a zone is away")
        before = len(watch.history)
        moved_bytes, held_s = await self._lose_zone(pace)
        screen.happened(
            f"a bookie alone would be repaired by now; of zone {_ZONE} "
            f"{await watch.moved_bytes() - moved_bytes} bytes were moved",
            "bold green",
        )
        back = await self._cluster.restore(_ZONE)
        screen.struck(f"zone {_ZONE} is started again: {', '.join(back)}")
        await watch.until(
            lambda: watch.is_in(_ZONE, Observation.UP) and not watch.is_held(_ZONE),
            f"zone {_ZONE} is up again",
            _WITHIN_S,
        )
        found = Outage(
            zone=_ZONE,
            states=[state for zone, state in watch.history[before:] if zone == _ZONE],
            held_seconds=screen.seconds - held_s,
            moved_bytes=await watch.moved_bytes() - moved_bytes,
        )
        load.part("the zone is back")
        screen.happened(
            f"zone {_ZONE} is back, and what it held with it: {found.moved_bytes} bytes were moved",
            "bold green",
        )
        await asyncio.sleep(pace.back)
        return found

    async def lose_zone(self, load: Load, pace: DemoPace) -> ZoneLoss:
        """Kill a zone, destroy its disks, count what repair would cost, and release it."""
        screen, watch = self._screen, self.watch
        screen.step(
            f"5. The zone is lost for good: {_ZONE}, with its disks",
            "Its repair is held again: the cluster cannot know that it is lost for good. A person "
            "who knows it looks at the price, and releases the repair. Then its ledgers are "
            "copied until none lacks a copy.",
        )
        load.part("the zone is lost")
        moved_bytes, _ = await self._lose_zone(pace)
        await self._wipe()
        looked = await self._preflight()
        held_bytes = await watch.moved_bytes() - moved_bytes
        watch.repair = (moved_bytes, looked.preflight.work.bytes)
        begun_s = screen.seconds
        await self._release(looked)
        lost = frozenset(looked.preflight.bookies)
        await watch.until(
            lambda: lost <= self._view.written_off, f"zone {_ZONE} is repaired", _WITHIN_S * 2
        )
        found = ZoneLoss(
            zone=_ZONE,
            moved_held_bytes=held_bytes,
            preflight=preflight_text.plain(looked, done=True),
            moved_bytes=await watch.moved_bytes() - moved_bytes,
            seconds=screen.seconds - begun_s,
        )
        screen.happened(
            f"all that zone {_ZONE} held has its copies again: "
            f"{megabytes(found.moved_bytes)} copied in {found.seconds:.0f} s",
            "bold green",
        )
        await asyncio.sleep(pace.repaired)
        return found

    async def compare_copies(self) -> Copies:
        """Read every copy of every entry, and compare; changes nothing."""
        metrics, problems = AuditorMetrics(), []
        pool = self.client.bookies.pool
        reader = ReplicaReader(self._view, pool, metrics, ReadPace(lambda: 0))
        async with aclosing(listing.walk(self.client.cluster)) as ledgers:
            async for one in ledgers:
                if not isinstance(one, StoredLedger):
                    problems.append(f"ledger {one.id}: its metadata cannot be read")
                    continue
                gone = [name for name in one.metadata.bookies if not reader.registered(name)]
                problems += [f"ledger {one.id}: a copy is said to be on {name}" for name in gone]
                doubted = await reader.verify(one, _at_once)
                problems += [
                    f"ledger {one.id}: entry {entry_id} {lack.value} on {name}"
                    for name, (entry_id, lack) in doubted.items()
                ]
        for what, count in (
            ("copies could not be read", metrics.copies_unknown_total),
            ("entries have no copy", metrics.entries_without_copy_total),
            ("entries have copies that differ", metrics.entries_in_conflict_total),
        ):
            if count:
                problems.append(f"{count} {what}")
        return Copies(entries=metrics.entries_checked_total, problems=problems)

    async def _lose_zone(self, pace: DemoPace) -> tuple[int, float]:
        """Kill the zone, and wait until it is held.

        Gives the bytes that were moved before, and the time since which the zone is held.
        """
        screen, watch = self._screen, self.watch
        moved_bytes = await watch.moved_bytes()
        killed = await self._cluster.kill_zone(_ZONE)
        screen.struck(f"kill -9: {', '.join(killed)}")
        await watch.until(lambda: watch.is_held(_ZONE), f"zone {_ZONE} is held", _WITHIN_S)
        held_s = screen.seconds
        await watch.until(
            lambda: watch.is_in(_ZONE, Observation.DOWN), f"zone {_ZONE} is seen down", _WITHIN_S
        )
        watch_rules, repair = self._view.policy.zone_watch, self._view.policy.repair
        alone_ms = watch_rules.evaluate_every_ms + repair.bookie_recovery_delay_ms
        await asyncio.sleep(max(0, held_s + alone_ms / 1_000 - screen.seconds) + pace.held)
        if not watch.is_held(_ZONE):
            raise LocalError(f"the repair of zone {_ZONE} is not held, although it is down")
        return moved_bytes, held_s

    async def _wipe(self) -> None:
        lost = local_shape.in_zone(_SHAPE, _ZONE)
        for name in lost:
            await asyncio.to_thread(shutil.rmtree, self._cluster.folder.data(name))
        self._screen.struck(f"the disks are gone: {', '.join(lost)}")

    async def _preflight(self) -> PreflightSeen:
        """Count what the release will do; raises ``LocalError`` if it would be refused."""
        record = self._view.zones[_ZONE]
        lost = releasing.held_losses(self._view, _ZONE)
        counted = await releasing.measure(self.client, self._view, lost, lambda _number: None)
        self._screen.happened(f"$ zonekeeper autorecovery release --zone {_ZONE} --dry-run", "bold")
        for name, text in preflight_text.rows(counted):
            self._screen.happened(f"  {name}: {text}", "")
        if counted.refusal is not None:
            raise LocalError(f"the release is refused, {counted.refusal}")
        return PreflightSeen(
            what=f"releasing zone {_ZONE}", gates=(record.gate,), preflight=counted
        )

    async def _release(self, looked: PreflightSeen) -> None:
        (gate,) = looked.gates
        cluster = self.client.cluster
        request = GateRequest(zone=_ZONE, person=_PERSON, wall_ms=reaching.wall_ms())
        told = reaching.chronicle(cluster, _PERSON.name)
        command = f"$ zonekeeper autorecovery release --zone {_ZONE} --reason '{_PERSON.reason}'"
        self._screen.happened(command, "bold")
        await permitting.release(cluster, request, gate.token, self._view.policy, told)


async def _at_once() -> None:
    """Wait for nothing."""


def _zone(bookie: BookieId) -> ZoneName:
    return local_shape.places(_SHAPE)[bookie].zone
