"""The sides of a race: a cluster of bookies and a warm load driver, on either side.

Apache's side is one version with one setting; ours is one way to bookies. Both our ways share
their bookies. All sides share one ZooKeeper, each under a root of its own, one disk and the file of
payload bytes.
"""

import abc
import asyncio
import re
import shutil
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.apache import artifacts, java_processes, property_files
from benchmarks.apache.java_processes import ApacheBookies, Jvm
from benchmarks.apache.load_drivers import LoadDriver
from benchmarks.apache.property_files import ApacheSetting, Upkeep
from benchmarks.support import accounting
from tests.support.bookie_processes import BookieProcesses, bookie_processes, make_cluster
from tests.support.certificates import Authority
from zonekeeper.client.base.ways import BookieWay
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules, Policy
from zonekeeper.wire.grpc.tls import TlsFiles

PAYLOAD_BYTES: Final = 1 << 16
_REWRITTEN: Final = re.compile(r"^zonekeeper_bookie_storage_rewritten_bytes_total (\S+)$", re.M)
_HTTP: Final = re.compile(r"http (127\.0\.0\.1:\d+)")


class RaceSide(abc.ABC):
    """One side; its driver is started with it, and again after a failure."""

    def __init__(self, name: str, *, ours: bool, folder: Path) -> None:
        self.name = name
        self.ours = ours
        self.warm = False
        #: Of bookies that were killed.
        self._ended_cpu_s = 0.0
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.driver = self.new_driver("driver")

    @abc.abstractmethod
    def bookie_pids(self) -> list[int]:
        """Give the ids of the bookies' processes."""

    @abc.abstractmethod
    def kill_and_start(self) -> float:
        """Kill a bookie, start it again, and say how long it took until it served."""

    @abc.abstractmethod
    def driver_command(self, name: str) -> Sequence[str | Path]:
        """Give the command of a driver of this side."""

    def new_driver(self, name: str) -> LoadDriver:
        """Start another driver."""
        return LoadDriver(self.driver_command(name), self._folder / f"{name}.log")

    def renew(self) -> None:
        """Replace the driver; the new one is cold."""
        self.driver.kill()
        self.driver, self.warm = self.new_driver("driver"), False

    def pids(self) -> list[int]:
        """Give the ids of the bookies and the driver."""
        return [*self.bookie_pids(), self.driver.pid]

    def cpu_seconds(self) -> float:
        """Give what bookies and driver have used so far, with bookies that were killed."""
        return self._ended_cpu_s + accounting.cpu_seconds_of(self.pids())

    def restart_bookie(self) -> float:
        """Kill a bookie, start it again, and say how long it took until it served."""
        before = {pid: accounting.cpu_seconds_of([pid]) for pid in self.bookie_pids()}
        took_s = self.kill_and_start()
        there = self.bookie_pids()
        self._ended_cpu_s += sum(cpu_s for pid, cpu_s in before.items() if pid not in there)
        return took_s

    def memory_mib(self) -> dict[str, float]:
        """Give the most memory that the client has had, and all bookies together."""
        return {
            "client_mib": accounting.memory_mib(self.driver.pid),
            "bookies_mib": sum(map(accounting.memory_mib, self.bookie_pids())),
        }

    def rewritten_bytes(self) -> float | None:
        """Give what its bookies have rewritten so far; None: they do not say."""
        return None

    def close(self) -> None:
        """End the driver."""
        self.driver.kill()


class ApacheSide(RaceSide):
    """Apache BookKeeper of one version with one setting."""

    def __init__(self, name: str, bookies: ApacheBookies) -> None:
        self._bookies = bookies
        super().__init__(name, ours=False, folder=bookies.folder)

    def bookie_pids(self) -> list[int]:
        """Give the ids of the bookies' processes."""
        return self._bookies.pids()

    def kill_and_start(self) -> float:
        """Kill a bookie, start it again, and say how long it took until it served."""
        return self._bookies.restart(0)

    def driver_command(self, name: str) -> Sequence[str | Path]:
        """Give the command of a driver: Java, the driver's source, its properties, the payload."""
        bookies = self._bookies
        command = java_processes.driver_command(bookies, bookies.folder / name)
        return [*command, bookies.folder.parent / "payload"]


class OurSide(RaceSide):
    """zonekeeper over one way; its bookies serve both."""

    def __init__(
        self, way: BookieWay, bookies: BookieProcesses, folder: Path, tls: TlsFiles | None
    ) -> None:
        self._way = way
        self._tls = tls
        self._bookies = bookies
        super().__init__(name_of(way), ours=True, folder=folder / name_of(way))

    def bookie_pids(self) -> list[int]:
        """Give the ids of the bookies' processes."""
        return self._bookies.pids()

    def kill_and_start(self) -> float:
        """Kill a bookie, start it again, and say how long it took until it served."""
        name = next(iter(self._bookies.names()))
        self._bookies.kill(name)
        began = time.perf_counter()
        self._bookies.start(name)
        return time.perf_counter() - began

    def driver_command(self, name: str) -> Sequence[str | Path]:
        """Give the command of a driver: Python, its module, the store, the way, the payload."""
        module = ("-m", "benchmarks.apache.our_driver")
        payload = self._folder.parent / "payload"
        words = [sys.executable, *module, self._bookies.address, self._way.value, payload]
        files = self._tls
        return words if files is None else [*words, files.authority, files.certificate, files.key]

    def rewritten_bytes(self) -> float | None:
        """Give what its bookies have rewritten so far, by their pages of metrics."""
        found = 0.0
        for name in self._bookies.running():
            address = _HTTP.search(self._bookies.said(name))
            if address is None:
                return None
            with urllib.request.urlopen(f"http://{address[1]}/metrics", timeout=10) as page:
                line = _REWRITTEN.search(page.read().decode())
            found += float(line[1]) if line else 0.0
        return found


def name_of(way: BookieWay) -> str:
    """Name our side by its way."""
    return "ours, lane" if way is BookieWay.SOCKET else "ours, gRPC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """The sides of a race, and the ground on which they run."""

    versions: Sequence[str]
    settings: Sequence[ApacheSetting]
    ways: Sequence[BookieWay]
    bookies: int
    upkeep: Upkeep
    #: TLS in both directions between clients and bookies, on all sides.
    tls: bool = False

    @property
    def our_bookies(self) -> dict[BookieId, ZoneName]:
        """Our bookies, each in a zone of its own."""
        letters = "abcdefgh"[: self.bookies]
        return {BookieId(f"bk-{letter}-0"): ZoneName(letter) for letter in letters}


@dataclass(frozen=True, slots=True)
class Started:
    """All sides, and the process of the one ZooKeeper."""

    sides: Sequence[RaceSide]
    zookeeper_pid: int


@contextmanager
def started(field: Field, folder: Path) -> Iterator[Started]:
    """Start everything; all of it ends with the block."""
    (folder / "payload").write_bytes(_payload())
    java = java_processes.find_java()
    folders = {version: artifacts.jars(version) for version in field.versions}
    newest = folders[max(folders, key=artifacts.versions().index)] if folders else None
    with ExitStack() as ends:
        jvm = Jvm(java, newest or artifacts.jars(artifacts.versions()[0]))
        port, pid = ends.enter_context(java_processes.zookeeper(jvm, folder / "zookeeper"))
        sides: list[RaceSide] = []
        files = _certified(folder / "tls", field) if field.tls else None
        ours = ends.enter_context(_ours(field, port, folder, files))
        for way in field.ways:
            sides.append(OurSide(way, ours, folder, files))
            ends.callback(sides[-1].close)
        for version in field.versions:
            for setting in field.settings:
                name = f"Apache {version}, {setting.value}"
                bookies = ApacheBookies(
                    jvm=Jvm(java, folders[version]),
                    setting=setting,
                    metadata_uri=_root(port, version, setting),
                    folder=folder / f"apache-{version}-{setting.value}",
                    count=field.bookies,
                    upkeep=field.upkeep,
                    tls=files,
                )
                ends.callback(bookies.close)
                bookies.start()
                sides.append(ApacheSide(name, bookies))
                ends.callback(sides[-1].close)
        yield Started(sides, pid)


@contextmanager
def _ours(
    field: Field, port: int, folder: Path, files: TlsFiles | None
) -> Iterator[BookieProcesses]:
    address = f"zk://127.0.0.1:{port}/ours"
    zones = field.our_bookies
    # Strict rules refuse E=5 with Qw=3: write sets that wrap around lose the rotation of zones.
    rules = PlacementRules(zones=tuple(zones.values()), strict=field.bookies == 3)
    policy = Policy(placement=rules, quorums=Quorums(ensemble=3, write=3, ack=2))
    upkeep = field.upkeep
    flags = {"--listen-socket": "127.0.0.1:0", "--gc-interval": f"{upkeep.collect_s}s"}
    if upkeep.minor_s is not None:
        flags["--minor-compaction-interval"] = f"{upkeep.minor_s}s"
    if upkeep.major_s is not None:
        flags["--major-compaction-interval"] = f"{upkeep.major_s}s"
    if files is not None:
        flags["--tls-authority"] = str(files.authority)
        flags["--tls-certificate"] = str(files.certificate)
        flags["--tls-key"] = str(files.key)
    asyncio.run(make_cluster(address, policy))
    with bookie_processes(address, folder / "ours", zones, flags=flags) as bookies:
        if field.ways:
            bookies.start()
        yield bookies
    shutil.rmtree(folder / "ours", ignore_errors=True)


def _certified(folder: Path, field: Field) -> TlsFiles:
    """Make one certificate for all bookies and clients of a race."""
    authority = Authority(folder)
    pair = authority.sign("all", name="race", hosts=("127.0.0.1", *field.our_bookies))
    trusted = authority.pair.certificate
    return TlsFiles(authority=trusted, certificate=pair.certificate, key=pair.key)


def _root(port: int, version: str, setting: ApacheSetting) -> str:
    return property_files.metadata_uri(port, f"/apache-{version}-{setting.value}")


def _payload() -> bytes:
    """Give bytes that compress to nothing, the same in every run."""
    found, state = bytearray(), 1
    while len(found) < PAYLOAD_BYTES:
        state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        found += state.to_bytes(8, "little")
    return bytes(found)
