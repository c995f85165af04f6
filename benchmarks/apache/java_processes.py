"""Apache's programs as processes: a ZooKeeper for all sides, bookies, and the load driver in Java.

Only processes that were started here are ended. A bookie is ready when its log says so.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.apache import property_files
from benchmarks.apache.property_files import ApacheSetting, Upkeep
from tests.support import java_runtime
from zonekeeper.wire.grpc.tls import TlsFiles

HERE: Final = Path(__file__).parent
DRIVER: Final = HERE / "Driver.java"
_READY_S: Final = 180
_LOOK_S: Final = 0.05
_OPENED: Final = (
    *("java.io", "java.util.zip", "java.nio", "sun.nio.ch", "jdk.internal.misc", "java.lang"),
)
_SMALL_JVM: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class ApacheFailedError(Exception):
    """A program of Apache's did not start, or ended."""


def find_java() -> Path:
    """Give the `java` of a JDK: the driver is compiled when it starts."""
    java = java_runtime.find()
    if java is None or not (java.resolve().parent / "javac").exists():
        raise ApacheFailedError(
            "no JDK: install one (17 or newer; Debian: openjdk-17-jdk-headless), or set JAVA_HOME"
        )
    return java


def free_port() -> int:
    """Give a port that is free now."""
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


@dataclass(frozen=True, slots=True)
class Jvm:
    """Java on the jars of one version."""

    java: Path
    jars: Path

    def command(self, options: Sequence[str], folder: Path, *words: str | Path) -> list[str]:
        """Give a command line; the logging's configuration is in the folder."""
        return [
            str(self.java),
            *options,
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
            "-Dio.netty.tryReflectionSetAccessible=true",
            f"-Dlog4j.configurationFile=file:{folder / 'log4j2.xml'}",
            *("-cp", f"{self.jars}/*"),
            *map(str, words),
        ]


@contextmanager
def zookeeper(jvm: Jvm, folder: Path) -> Iterator[tuple[int, int]]:
    """Run one ZooKeeper; gives its port and its process's id."""
    port = free_port()
    (folder / "data").mkdir(parents=True)
    (folder / "zoo.cfg").write_text(property_files.zookeeper(port, folder))
    (folder / "log4j2.xml").write_text(property_files.log4j("WARN"))
    main = "org.apache.zookeeper.server.ZooKeeperServerMain"
    command = jvm.command(("-Xmx512m", "-XX:+UseSerialGC"), folder, main, folder / "zoo.cfg")
    process = _launch(command, folder / "log")
    try:
        _wait(process, folder / "log", lambda: _is_ok(port))
        yield port, process.pid
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    except OSError:
        return False
    return True


def _is_ok(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as asked:
            asked.sendall(b"ruok")
            return asked.recv(16) == b"imok"
    except OSError:
        return False


@dataclass(slots=True, kw_only=True)
class ApacheBookies:
    """Bookies of one version and one setting, on a root of their own."""

    jvm: Jvm
    setting: ApacheSetting
    metadata_uri: str
    folder: Path
    count: int
    upkeep: Upkeep
    tls: TlsFiles | None = None
    _ports: list[int] = field(default_factory=list)
    _processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self) -> None:
        """Make the root, start all bookies, and wait until each serves."""
        for number in range(self.count):
            place = self._place(number)
            place.mkdir(parents=True)
            self._ports.append(free_port())
            (place / "log4j2.xml").write_text(property_files.log4j("INFO"))
            (place / "bookie.conf").write_text(
                property_files.bookie(
                    self.setting, self.metadata_uri, self._ports[-1], place, self.upkeep, self.tls
                )
            )
        self._initialise()
        for number in range(self.count):
            self._launch(number)
        for number in range(self.count):
            self._wait_until_ready(number)

    def restart(self, number: int) -> float:
        """Kill a bookie, start it again, and say how long it took until it served."""
        self._kill(number)
        began = time.perf_counter()
        self._launch(number)
        self._wait_until_ready(number)
        return time.perf_counter() - began

    def pids(self) -> list[int]:
        """Give the processes' ids."""
        return [process.pid for process in self._processes.values()]

    def close(self) -> None:
        """End all, and remove their data."""
        for number in list(self._processes):
            self._kill(number)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _place(self, number: int) -> Path:
        return self.folder / f"bookie-{number}"

    def _initialise(self) -> None:
        """Make the root, as `bookkeeper shell initnewcluster` does."""
        place = self._place(0)
        shell = ("org.apache.bookkeeper.bookie.BookieShell", "-conf", place / "bookie.conf")
        done = subprocess.run(  # noqa: S603 words of this module and paths
            self.jvm.command(_SMALL_JVM, place, *shell, "initnewcluster"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_READY_S,
        )
        if done.returncode != 0:
            raise ApacheFailedError(f"initnewcluster failed: {(done.stdout + done.stderr)[-2000:]}")

    def _launch(self, number: int) -> None:
        place = self._place(number)
        (place / "log").unlink(missing_ok=True)
        command = self.jvm.command(
            property_files.BOOKIE_JVM,
            place,
            *("org.apache.bookkeeper.server.Main", "--conf", place / "bookie.conf"),
        )
        self._processes[number] = _launch(command, place / "log")

    def _wait_until_ready(self, number: int) -> None:
        log, port = self._place(number) / "log", self._ports[number]
        _wait(
            self._processes[number],
            log,
            lambda: "Started component" in log.read_text(errors="replace") and _listens(port),
        )

    def _kill(self, number: int) -> None:
        process = self._processes.pop(number)
        process.kill()
        process.wait()


def driver_command(bookies: ApacheBookies, folder: Path) -> list[str | Path]:
    """Give the command of a load driver, up to the payload file."""
    properties = property_files.client(bookies.setting, bookies.metadata_uri, bookies.tls)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log4j2.xml").write_text(property_files.log4j("WARN"))
    (folder / "client.conf").write_text(properties)
    words = (DRIVER, folder / "client.conf")
    return [*bookies.jvm.command(property_files.CLIENT_JVM, folder, *words)]


def _launch(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        return subprocess.Popen(  # noqa: S603 words of this module and paths
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=_environment()
        )


def _environment() -> dict[str, str]:
    """Give the environment without options that would change every JVM."""
    changed = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH")
    return {name: value for name, value in os.environ.items() if name not in changed}


def _wait(process: subprocess.Popen[bytes], log: Path, is_ready: Callable[[], bool]) -> None:
    until = time.perf_counter() + _READY_S
    while not is_ready():
        if process.poll() is not None or time.perf_counter() > until:
            raise ApacheFailedError(f"it did not start:\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(_LOOK_S)
