"""A whole cluster as processes on a real ZooKeeper: bookies in zones, autorecovery, and a writer.

All timers are short, and all of them stand in the policy record, as an owner would set them. What
is waited for is a condition with a deadline. The rules of the gates (``gates``) are held from the
first record to the last.
"""

import asyncio
import contextlib
import resource
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.support import figures, zookeeper
from tests.support.autorecovery_processes import (
    AutorecoveryProcesses,
    Metrics,
    autorecovery_processes,
)
from tests.support.bookie_processes import BookieProcesses, bookie_processes, make_cluster
from tests.support.ready_processes import SHELL
from tests.zones import copies, load
from tests.zones.gates import Gates
from tests.zones.load import LEDGER_ENTRIES, Load, under_load
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client
from zonekeeper.metadata.store.background import alongside
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules, Policy, RepairRules, ZoneWatchRules
from zonekeeper.placement.zones.gate import Permission
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.placement.zones.zone_records import ZoneRecord

A, B, C = ZoneName("a"), ZoneName("b"), ZoneName("c")
#: No session lives longer without a word.
SESSION_S: Final = 3.0
#: Every session has ended by then, and a loss is older than any delay before repair.
LONG_S: Final = 3 * SESSION_S
WATCH: Final = ZoneWatchRules(
    session_timeout_ms=3_000,
    evaluate_every_ms=1_000,
    start_grace_ms=1_000,
    suspect_for_ms=2_000,
    between_marks_for_ms=10_000,
    hold_up_ms=3_000,
    hold_up_max_ms=3_000,
    stand_in_after_ms=2_000,
)
REPAIR: Final = RepairRules(bookie_recovery_delay_ms=6_000, open_ledger_grace_ms=1_000)
#: Whatever could be published, if the gate did not hold it, has been by so many evaluations.
LONG_ENOUGH: Final = 9
#: For anything that is waited for; a busy machine takes its time.
LIMIT_S: Final = 300.0
_LOOK_AGAIN_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How large a cluster is."""

    bookies_a_zone: int = 3
    quorums: Quorums = field(
        default_factory=lambda: Quorums(ensemble=3, write=3, ack=2, ack_zones=2)
    )

    def bookies(self) -> dict[BookieId, ZoneName]:
        """Name the bookies; each is an upgrade domain of its zone."""
        return {
            BookieId(f"bk-{zone}-{number}"): zone
            for zone in (A, B, C)
            for number in range(self.bookies_a_zone)
        }


@dataclass(slots=True, kw_only=True)
class World:
    """The cluster, what is done to it, and what is waited for."""

    address: str
    zookeeper: zookeeper.Server
    bookies: BookieProcesses
    autos: AutorecoveryProcesses
    client: Client
    gates: Gates
    load: Load
    #: What was done to it, by kind.
    faults: Counter[str]
    #: What processes that were killed had moved.
    _moved_before: int = 0
    #: How many records of a zone there were when its bookies were last started, or went on.
    _recorded: dict[ZoneName, int] = field(default_factory=dict)

    # ── what is done to it ──

    def members(self, zone: ZoneName) -> list[BookieId]:
        """Name a zone's bookies."""
        return [name for name, where in self.bookies.zones.items() if where == zone]

    def kill(self, bookie: BookieId) -> None:
        """Kill one bookie."""
        self.faults["bookies killed"] += 1
        self.bookies.kill(bookie)

    def kill_zone(self, zone: ZoneName) -> None:
        """Kill all bookies of a zone at once."""
        self.faults["zones killed"] += 1
        for name in self.members(zone):
            if name in self.bookies.running():
                self.bookies.kill(name)

    async def start(self, bookies: Iterable[BookieId]) -> None:
        """Start bookies again; what their zones are until all are ready is seen, too."""
        self._recorded = {zone: len(records) for zone, records in self.gates.zones.items()}
        await asyncio.to_thread(self.bookies.start, *bookies)

    def freeze_zone(self, zone: ZoneName) -> None:
        """Stop all bookies of a zone where they are, as a partition would."""
        self.faults["zones frozen"] += 1
        for name in self.members(zone):
            self.bookies.freeze(name)

    def thaw_zone(self, zone: ZoneName) -> None:
        """Let a zone go on; what it is from now on is seen, too, however short it lasts."""
        self._recorded[zone] = len(self.gates.zones[zone])
        for name in self.members(zone):
            self.bookies.thaw(name)

    def freeze_bookie(self, bookie: BookieId) -> None:
        """Stop one bookie where it is."""
        self.faults["bookies frozen"] += 1
        self.bookies.freeze(bookie)

    def freeze_autorecovery(self) -> None:
        """Stop every autorecovery process where it is."""
        self.faults["autorecovery frozen"] += 1
        for name in self.autos.running():
            self.autos.freeze(name)

    def thaw_autorecovery(self) -> None:
        for name in self.autos.running():
            self.autos.thaw(name)

    def freeze_store(self) -> None:
        """Stop ZooKeeper where it is."""
        self.faults["ZooKeeper frozen"] += 1
        self.zookeeper.stop()

    async def kill_leaders(self) -> None:
        """Kill the processes of the auditor and of the zone watch; each is started again."""
        leaders = await self.leaders()
        self._moved_before += sum([await self._moved_by(name) for name in leaders])
        for name in leaders:
            self.faults["leaders killed"] += 1
            self.autos.kill(name)
        await asyncio.to_thread(self.autos.start, *leaders)

    async def shell(self, *words: str, code: int = 0) -> str:
        """Call the command on this cluster; give what it says."""
        process = await asyncio.create_subprocess_exec(
            *SHELL,
            *words,
            "--metadata",
            self.address,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        assert process.returncode == code, f"{words} ended with {process.returncode}: {said!r}"
        return said.decode()

    # ── what is seen ──

    async def metrics(self) -> dict[BookieId, Metrics]:
        """Ask every autorecovery process."""
        return {name: await self.autos.metrics(name) for name in self.autos.running()}

    async def leaders(self) -> list[BookieId]:
        """Name the processes that audit and that watch, once there is one of each."""
        found: set[BookieId] = set()

        async def both() -> bool:
            roles = {"zonekeeper_zone_watch_leading", "zonekeeper_auditor_leading"}
            found.clear()
            for name, metrics in (await self.metrics()).items():
                held = {role for role in roles if metrics.sum_of(role)}
                roles -= held
                found.update([name] if held else [])
            return not roles

        await self.until(both, "somebody audits and somebody watches")
        return sorted(found)

    async def moved(self) -> int:
        """Say how many bytes were copied, by all processes that there have been."""
        now = [await self._moved_by(name) for name in self.autos.running()]
        return self._moved_before + sum(now)

    async def has_moved(self, so_much: int) -> None:
        """Check how many bytes were copied; a failure tells all that the zones went through."""
        moved = await self.moved()
        assert moved == so_much, f"{moved} bytes were copied, not {so_much}\n{self.told()}"

    async def _moved_by(self, name: BookieId) -> int:
        return int((await self.autos.metrics(name)).sum_of("zonekeeper_repair_bytes_moved_total"))

    # ── what is waited for ──

    async def until(self, holds: Callable[[], Awaitable[bool]], what: str) -> None:
        """Wait until something holds."""
        try:
            async with asyncio.timeout(LIMIT_S):
                while not await holds():
                    await self.gates.moved(_LOOK_AGAIN_S)
        except TimeoutError:
            raise AssertionError(f"never came: {what}\n{self.told()}") from None

    async def zone_is(
        self, zone: ZoneName, *states: Observation, permission: Permission | None = None
    ) -> ZoneRecord:
        """Wait until a zone is seen so, now or since its bookies came back; give its record."""
        found: list[ZoneRecord] = []
        begin = self._recorded.pop(zone, None)

        async def so() -> bool:
            records = self.gates.zones[zone]
            found.extend(
                one
                for one in records[-1 if begin is None else begin :]
                if one.observed.state in states and permission in (None, one.gate.permission)
            )
            return bool(found)

        await self.until(so, f"zone {zone} is {', '.join(states)} and {permission}")
        return found[0]

    async def calm(self) -> None:
        """Wait until all bookies are there, and every zone is up and open."""

        async def so() -> bool:
            records = [seen[-1] for seen in self.gates.zones.values()]
            return bool(records) and all(
                one.observed.state is Observation.UP
                and one.gate.permission is Permission.OPEN
                and one.evidence.available == len(self.members(one.zone))
                for one in records
            )

        await self.until(so, "all zones are up")
        self._recorded.clear()

    async def alert_stands(self, alert: str) -> None:
        """Wait until some process shows this alert: each hears of a record in its own time."""

        async def so() -> bool:
            metrics = (await self.metrics()).values()
            return any(one.sum_of("zonekeeper_alert", alert=alert) for one in metrics)

        await self.until(so, f"the alert {alert}")

    async def lasts(self, seconds: float) -> None:
        """Let what was frozen stand still for so long: that is the fault, and no waiting for it."""
        await asyncio.sleep(seconds)

    async def evaluations(self, count: int = LONG_ENOUGH) -> None:
        """Let the zone watch evaluate so many times: waits for the gate are counted by this."""
        aim = self.gates.cluster[-1].evaluation + count

        async def so() -> bool:
            return self.gates.cluster[-1].evaluation >= aim

        await self.until(so, f"{count} more evaluations")

    async def written(self, count: int = 2 * LEDGER_ENTRIES) -> None:
        """Let the writer have so many entries more acknowledged."""
        aim = self.load.entries + count

        async def so() -> bool:
            return self.load.entries >= aim

        await self.until(so, f"{count} more entries")

    async def holds(self, bookie: BookieId) -> None:
        """Wait until a closed ledger has entries on this bookie: chance chooses its bookies."""

        async def so() -> bool:
            return bookie in {copy.bookie for copy in await copies.every(self.client.cluster)}

        await self.until(so, f"{bookie} holds entries of a closed ledger")

    async def unnamed(self, *bookies: BookieId) -> None:
        """Wait until no ledger names these bookies any more."""

        async def so() -> bool:
            return not await copies.named(self.client.cluster) & set(bookies)

        await self.until(so, f"no ledger names {', '.join(bookies)}")

    def told(self) -> str:
        """Say how it stands, for a failure."""
        lines = [
            f"{zone}: {one.observed.state} ({one.observed.reason}), {one.gate}, after "
            f"{self.gates.told(zone)}"
            for zone, (*_, one) in self.gates.zones.items()
        ]
        lines += [f"cluster: {self.gates.cluster[-1:]}", f"faults: {dict(self.faults)}"]
        lines += [f"{name}: {self.autos.words(name)[-2_000:]}" for name in self.autos.zones]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Ground:
    """What a test gives to its world."""

    folder: Path
    #: Where the test's figures go.
    record: Callable[[str, object], None]


@asynccontextmanager
async def world(
    ground: Ground,
    *,
    repair: RepairRules = REPAIR,
    shape: Shape | None = None,
) -> AsyncIterator[World]:
    """Give a cluster in which all is well, with a writer at work; in the end all is checked."""
    shape, began_cpu_s = shape or Shape(), _cpu_s()
    policy = Policy(
        quorums=shape.quorums,
        placement=PlacementRules(zones=(A, B, C), upgrade_domains=shape.bookies_a_zone),
        zone_watch=WATCH,
        repair=repair,
    )
    autos = {BookieId("auto-0"): A, BookieId("auto-1"): B}
    with zookeeper.single() as ensemble:
        address = f"zk://{ensemble.addresses}/zones"
        await make_cluster(address, policy)
        with (
            _bookies(address, ground.folder, shape) as bookies,
            autorecovery_processes(address, ground.folder, autos) as processes,
        ):
            await asyncio.gather(
                asyncio.to_thread(bookies.start), asyncio.to_thread(processes.start)
            )
            gates, faults = Gates(), Counter[str]()
            async with (
                clients.connect(address) as client,
                alongside(gates.follow(client.cluster)),
            ):
                async with under_load(client) as written:
                    made = World(
                        address=address,
                        zookeeper=ensemble.servers[0],
                        bookies=bookies,
                        autos=processes,
                        client=client,
                        gates=gates,
                        load=written,
                        faults=faults,
                    )
                    await made.calm()
                    await made.written()
                    yield made
                gates.check()
                await _check_all(address, written)
            assert bookies.ended() == []
            assert processes.ended() == []
    for name in shape.bookies():  # what failed is kept, to be looked at; all else is gigabytes
        shutil.rmtree(bookies.data(name))
    counts = {"faults": faults.total(), "entries": written.entries, **faults}
    figures.record(ground.record, "zones and gate", counts, _cpu_s() - began_cpu_s)


def _bookies(
    address: str, folder: Path, shape: Shape
) -> contextlib.AbstractContextManager[BookieProcesses]:
    return bookie_processes(
        address,
        folder,
        shape.bookies(),
        upgrade_domains=shape.bookies_a_zone,
    )


async def _check_all(address: str, written: Load) -> None:
    """Read all that was acknowledged, with a client that did not write it."""
    async with clients.connect(address) as reader:
        for ledger_id, acked in written.acked.items():
            await load.check(reader, ledger_id, acked, recover=True)


def _cpu_s() -> float:
    """Give the CPU time of this process, and of its children that have ended."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, who))
