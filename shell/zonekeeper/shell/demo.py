"""The demonstration: a cluster loses a bookie and a zone while it is written to.

It is the product itself on this machine, at its own timers: bookies as processes, the quorum
client, kill -9. What it claims it checks: every acknowledged entry is read back and compared.
However it ends, nothing is left running.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from zonekeeper.client import errors
from zonekeeper.client.client import Client, connect
from zonekeeper.placement.ids import BookieId, EntryId, ZoneName
from zonekeeper.shell import demo_load, local_shape
from zonekeeper.shell.demo_load import Checked, Load
from zonekeeper.shell.demo_screen import Screen, Summary
from zonekeeper.shell.demo_writer import SecondWriter
from zonekeeper.shell.local_cluster import LocalCluster
from zonekeeper.shell.local_folder import LocalError
from zonekeeper.shell.local_shape import Shape

#: With all that may go wrong: beyond it the demonstration has failed.
LIMIT_S: Final = 110

#: So many entries of the second writer are acknowledged before the zone goes.
SECOND_ENTRIES: Final = 200

_SHAPE: Final = Shape()

#: What a recovery gave, and how many milliseconds it took.
_Outcome: TypeAlias = tuple[Checked, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long each part is watched, in seconds."""

    calm: float = 4
    without_bookie: float = 5
    second_goes_on: float = 0.3
    without_zone: float = 4
    recovered: float = 3
    back: float = 2
    whole_again: float = 3


async def run(cluster: LocalCluster, screen: Screen, pace: Pace) -> Summary:
    """Show it all; raises ``LocalError`` where it cannot go on. Bookies are stopped in the end."""
    try:
        async with asyncio.timeout(LIMIT_S):
            return await _Play(cluster, screen, pace).run()
    except TimeoutError:
        raise LocalError(f"the demonstration was not done after {LIMIT_S} s") from None
    except errors.ClientError as error:
        raise LocalError(f"the demonstration cannot go on: {error}") from error
    finally:
        if cluster.folder.read() is not None:
            await cluster.down()


class _Play:
    """One run."""

    def __init__(self, cluster: LocalCluster, screen: Screen, pace: Pace) -> None:
        self._cluster = cluster
        self._screen = screen
        self._pace = pace
        self._killed: list[BookieId] = []

    async def run(self) -> Summary:
        """Play all parts, and give the figures."""
        screen, address = self._screen, self._cluster.folder.address
        screen.title("1. A cluster on this machine: three zones, three bookies in each")
        screen.note(
            "Each bookie is a process. A ledger has a copy in each zone; an entry counts as"
        )
        screen.note("acknowledged when bookies of two zones have it on disk.")
        screen.note(f"Everything stands in {self._cluster.folder.path}.")
        await self._cluster.up()
        screen.happened("nine bookies are ready")
        async with connect(address) as client:
            load = Load(client, screen.happened, "all is well")
            screen.title("2. It is written to: about 2,000 entries a second")
            recovered, recovery_ms = await self._while_written(client, load)
            changes = client.counters.ensemble_changes
        screen.title("7. Is everything there? A new client reads it all back, byte for byte")
        async with connect(address) as client:
            checked = [
                await demo_load.check(client, ledger_id, last)
                for ledger_id, last in load.acked.items()
            ]
            again = await demo_load.check(client, recovered.ledger_id, EntryId(recovered.acked - 1))
        return Summary(
            timings=load.timings,
            checked=checked,
            recovered=again if recovered.whole else recovered,
            recovery_ms=recovery_ms,
            killed=self._killed,
            ensemble_changes=changes,
            seconds=screen.seconds,
        )

    async def _while_written(self, client: Client, load: Load) -> _Outcome:
        """Do all that is done to the cluster, while it is written to."""
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(load.run())
            showing = tasks.create_task(self._show(load))
            try:
                outcome: _Outcome | Exception = await self._strike(client, load)
                load.end()
                await writing
            except (errors.ClientError, LocalError) as error:
                outcome = error  # the group would wrap it
                writing.cancel()
            showing.cancel()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _strike(self, client: Client, load: Load) -> _Outcome:
        screen, pace = self._screen, self._pace
        await asyncio.sleep(pace.calm)

        victim = load.ensemble[0]
        screen.title(f"3. A bookie that is written to is killed: {victim}")
        load.part("a bookie is dead")
        await self._cluster.kill(victim)
        self._struck([victim])
        await asyncio.sleep(pace.without_bookie)

        zone = _zone(next(name for name in load.ensemble if _zone(name) != _zone(victim)))
        async with self._second_writer() as second:
            await second.has_acked(SECOND_ENTRIES)
            screen.title(f"4. A whole zone is killed: {zone}")
            load.part("a zone is dead, too")
            self._struck(await self._cluster.kill_zone(zone))
            await asyncio.sleep(pace.second_goes_on)
        assert second.ledger_id is not None, "it acknowledges what it has created"
        screen.struck(
            f"kill -9: a second writer, in ledger {second.ledger_id}, after its entry "
            f"{second.acked} was acknowledged"
        )
        await asyncio.sleep(pace.without_zone)

        screen.title("5. The dead writer's ledger is recovered, while the zone is down")
        begun_s = screen.seconds
        recovered = await demo_load.check(client, second.ledger_id, second.acked)
        recovery_ms = (screen.seconds - begun_s) * 1_000
        screen.happened(
            f"ledger {second.ledger_id}: recovered, closed and read in {recovery_ms:,.0f} ms; "
            f"{recovered.same:,} of {recovered.acked:,} acknowledged entries are there"
        )
        await asyncio.sleep(pace.recovered)

        screen.title(f"6. Zone {zone} comes back; {victim} stays dead")
        screen.note("Its bookies wait until their former sessions have run out: up to ten seconds.")
        back = await self._cluster.restore(zone)
        screen.happened(f"ready again: {', '.join(back)}")
        load.part("the zone is back")
        await asyncio.sleep(pace.back)
        load.renew()
        await asyncio.sleep(pace.whole_again)
        return recovered, recovery_ms

    def _struck(self, bookies: Sequence[BookieId]) -> None:
        self._killed += bookies
        self._screen.struck(f"kill -9: {', '.join(bookies)}")

    @contextlib.asynccontextmanager
    async def _second_writer(self) -> AsyncIterator[SecondWriter]:
        """Give a second writer that is killed at the end, with all that it said taken in."""
        second = await SecondWriter.start(self._cluster.folder.address)
        try:
            yield second
        finally:
            await second.kill()

    async def _show(self, load: Load) -> None:
        """Show each second how the writing goes."""
        before = 0
        while True:
            await asyncio.sleep(1)
            entries = load.entries_acked
            self._screen.pulse(entries, entries - before, load.timing, load.ensemble)
            before = entries


def _zone(bookie: BookieId) -> ZoneName:
    return local_shape.places(_SHAPE)[bookie].zone
