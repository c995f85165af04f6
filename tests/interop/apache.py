"""Apache BookKeeper's own programs, from its artifacts: the shell, the Java API, a bookie.

The artifacts come through Maven into a folder outside the checkout. Results of most commands go to
the log at INFO, so the log is what is read.
"""

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SHELL = "org.apache.bookkeeper.bookie.BookieShell"
SECONDS_MAX = 90

_OPENED = ("java.io", "java.util.zip", "java.nio", "sun.nio.ch", "jdk.internal.misc", "java.lang")
_JVM = (
    "-Xmx256m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Dio.netty.tryReflectionSetAccessible=true",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
)

_LOG4J = """<Configuration><Appenders><Console name="out" target="SYSTEM_OUT">
<PatternLayout pattern="%p %c{1} - %m%n"/></Console></Appenders>
<Loggers><Root level="INFO"><AppenderRef ref="out"/></Root></Loggers></Configuration>
"""


def artifacts() -> Path:
    """Give the folder of jars, fetching them the first time."""
    base = Path(os.environ.get("ZONEKEEPER_CACHE", Path.home() / ".cache"))
    folder = base / "zonekeeper-interop" / "lib"
    maven = shutil.which("mvn")
    if not maven:
        raise OSError("no `mvn` on the PATH: install Maven to run `make interop`")
    copy = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
    subprocess.run(
        [maven, "-B", "-q", "-f", HERE / "pom.xml", *copy, f"-DoutputDirectory={folder}"],
        check=True,
    )
    return folder


@dataclass(frozen=True, slots=True)
class Said:
    """What a program printed, and how it ended."""

    text: str
    code: int

    def line(self, pattern: str) -> re.Match[str]:
        """Find the one place that matches; the whole text is in the failure."""
        found = re.search(pattern, self.text)
        assert found, f"no {pattern!r} in:\n{self.text}"
        return found


@dataclass(frozen=True, slots=True)
class Apache:
    """One root in one ZooKeeper, as Apache's programs see it."""

    jars: Path
    folder: Path
    metadata_uri: str

    def configure(self, port: int) -> Path:
        """Write a bookie's configuration; the shell reads it too."""
        (self.folder / "log4j2.xml").write_text(_LOG4J)
        lines = [
            f"metadataServiceUri={self.metadata_uri}",
            f"bookiePort={port}",
            "advertisedAddress=127.0.0.1",
            "allowLoopback=true",
            "journalPreAllocSizeMB=4",
            "httpServerEnabled=false",
            *(f"{kind}Directories={self.folder / kind}" for kind in ("journal", "ledger", "index")),
        ]
        path = self.folder / f"bookie-{port}.conf"
        path.write_text("\n".join(lines) + "\n")
        return path

    def java(self, *arguments: str | Path) -> list[str]:
        """Give the command line of a Java program on these jars."""
        log = f"-Dlog4j.configurationFile=file:{self.folder / 'log4j2.xml'}"
        return ["java", *_JVM, log, "-cp", f"{self.jars}/*", *map(str, arguments)]

    def shell(self, *arguments: str) -> Said:
        """Run one command of ``bookkeeper shell``."""
        return self._run(self.java(SHELL, "-conf", self.configure(3181), *arguments))

    def source(self, name: str, *arguments: str) -> Said:
        """Run a Java source file of this folder."""
        return self._run(self.java(HERE / name, *arguments))

    def _run(self, command: list[str]) -> Said:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS_MAX,
        )
        return Said(done.stdout + done.stderr, done.returncode)

    @contextmanager
    def bookie(self) -> Iterator[str]:
        """Run a bookie; gives its id."""
        port = free_port()
        config = self.configure(port)
        log = self.folder / "bookie.log"
        with log.open("wb") as out:
            main = self.java("org.apache.bookkeeper.server.Main", "--conf", config)
            process = subprocess.Popen(main, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            deadline = time.monotonic() + SECONDS_MAX  # noqa: TID251 a real process, in real time
            while "Started component bookie-server" not in log.read_text():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()  # noqa: TID251 as above
                time.sleep(0.1)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(SECONDS_MAX)


def free_port() -> int:
    """Give a port that is free now."""
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])
