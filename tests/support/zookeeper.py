"""Real ZooKeeper servers for tests: from the jars inside pyspark, on free ports, in a folder.

``require`` finds Java and the jars, or skips the test (fails it where ``CI`` is set: there nothing
may be missing). ``single`` and ``quorum`` start servers, wait until they serve (not only until they
listen), and end only the processes that they started.
"""

import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry

from tests.support import held_ports, java_runtime

_JARS = ("zookeeper-3*", "zookeeper-jute-*", "slf4j-api-*", "metrics-core-*", "snappy-java-*")

#: For TLS only.
_NETTY_JARS = "netty-*"

_JVM = (
    "-Xms32m",
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dzookeeper.admin.enableServer=false",
    # Tests kill servers, and leave the machine its power: without syncs no session ends
    # because a disk that others write to is slow.
    "-Dzookeeper.forceSync=no",
)

_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

#: For a server that starts on a busy machine.
_READY_SECONDS = 60

_START_ATTEMPTS = 3

_LOOPBACK = "127.0.0.1"

_SESSION_MIN_MS = 400


@dataclass(frozen=True, slots=True)
class Installation:
    """What a server runs from."""

    java: Path
    jars: tuple[Path, ...]


def require() -> Installation:
    """Find Java and ZooKeeper; skip the test where they are not, fail it in CI."""
    java = java_runtime.find()
    jars = _jars()
    missing = " and ".join(
        what for what, found in (("Java", java), ("pyspark's ZooKeeper jars", jars)) if not found
    )
    if java is None or jars is None:
        java_runtime.do_without(f"no ZooKeeper for this test: {missing} not found")
    return Installation(java, jars)


def _jars() -> tuple[Path, ...] | None:
    spark = importlib.util.find_spec("pyspark")
    for folder in (spark and spark.submodule_search_locations) or ():
        found = [sorted((Path(folder) / "jars").glob(f"{name}.jar")) for name in _JARS]
        if all(found):
            netty = sorted((Path(folder) / "jars").glob(f"{_NETTY_JARS}.jar"))
            return tuple(jar for jars in (*found, netty) for jar in jars)
    return None


@dataclass(frozen=True, slots=True)
class ServerTls:
    """A server's certificate and its authority, each one PEM file; it wants a client's too."""

    key_and_certificate: Path
    authority: Path


@dataclass(frozen=True, slots=True)
class _Wanted:
    """How servers are to be."""

    tls: ServerTls | None
    host: str
    session_min_ms: int


@dataclass(slots=True)
class Server:
    """One server process, which can be killed, stopped, and started again on its data."""

    installation: Installation
    folder: Path
    host: str
    port: int
    secure_port: int
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def start(self) -> None:
        """Start the process; ``wait_until_ready`` waits for its service."""
        assert self.process is None, "it runs already"
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    str(self.installation.java),
                    *_JVM,
                    "-cp",
                    os.pathsep.join(map(str, self.installation.jars)),
                    _MAIN,
                    str(self.folder / "zoo.cfg"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """Freeze the process; ``go_on`` thaws it."""
        assert self.process is not None, "it does not run"
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self.process is not None, "it does not run"
        self.process.send_signal(signal.SIGCONT)

    def mode(self) -> str:
        """Give what it takes itself for: ``leader``, ``follower``, ``standalone``, or nothing."""
        try:
            with socket.create_connection((self.host, self.port), timeout=2) as asked:
                asked.sendall(b"srvr")
                answer = b"".join(iter(lambda: asked.recv(4096), b"")).decode()
        except OSError:
            return ""
        return next((line[6:] for line in answer.splitlines() if line.startswith("Mode: ")), "")

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None


@dataclass(slots=True)
class Ensemble:
    """Servers that make one service."""

    servers: list[Server]

    @property
    def addresses(self) -> str:
        return ",".join(server.address for server in self.servers)

    def leader(self) -> Server:
        """Give the leader; a busy machine may have lost it, and elects the next one."""
        while True:
            for server in self.servers:
                if server.mode() in ("leader", "standalone"):
                    return server
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait until a client of each living server gets an answer."""
        for server in self.servers:
            if server.alive():
                _wait_until_ready(server.address)


def _wait_until_ready(address: str) -> None:
    # A server that has let a client in may lose its leader, or stand still, before it answers.
    client = KazooClient(
        address,
        timeout=5,
        connection_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=0.2),
        command_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=0.2, deadline=_READY_SECONDS),
    )
    try:
        client.start(timeout=_READY_SECONDS)
        client.retry(client.exists, "/")
    finally:
        client.stop()
        client.close()


@contextlib.contextmanager
def single(
    tls: ServerTls | None = None,
    *,
    host: str = _LOOPBACK,
    session_min_ms: int = _SESSION_MIN_MS,
) -> Iterator[Ensemble]:
    """Run one server at an address of this machine; with ``tls``, it has a port for that too.

    No session gets a shorter timeout than ``session_min_ms``, whatever a client asks for.
    """
    with _running(1, _Wanted(tls, host, session_min_ms)) as ensemble:
        yield ensemble


@contextlib.contextmanager
def quorum() -> Iterator[Ensemble]:
    """Run three servers that elect a leader."""
    with _running(3, _Wanted(None, _LOOPBACK, _SESSION_MIN_MS)) as ensemble:
        yield ensemble


@contextlib.contextmanager
def _running(count: int, wanted: _Wanted) -> Iterator[Ensemble]:
    installation = require()
    with (
        tempfile.TemporaryDirectory(prefix="zookeeper-") as folder,
        contextlib.ExitStack() as held,
    ):
        ports = held_ports.choose(4 * count, wanted.host, held)
        ensemble = _started(installation, Path(folder), ports, wanted)
        try:
            yield ensemble
        finally:
            for server in ensemble.servers:
                server.kill()


def _started(
    installation: Installation, folder: Path, ports: Sequence[int], wanted: _Wanted
) -> Ensemble:
    """Start servers, more than once if need be."""
    for attempt in range(_START_ATTEMPTS):
        ensemble = _configured(installation, folder / str(attempt), ports, wanted)
        for server in ensemble.servers:
            server.start()
        try:
            ensemble.wait_until_ready()
        except Exception:
            for server in ensemble.servers:
                server.kill()
            if attempt == _START_ATTEMPTS - 1:
                raise
        else:
            return ensemble
    raise AssertionError("unreachable")


def _configured(
    installation: Installation, folder: Path, ports: Sequence[int], wanted: _Wanted
) -> Ensemble:
    tls, host, count = wanted.tls, wanted.host, len(ports) // 4
    clients = ports[:count]
    members = [
        f"server.{n + 1}={host}:{ports[count + n]}:{ports[2 * count + n]};{host}:{port}"
        for n, port in enumerate(clients)
    ]
    servers = []
    for n, port in enumerate(clients):
        place = folder / str(n + 1)
        (place / "data").mkdir(parents=True)
        lines = [
            "tickTime=200",
            f"dataDir={place / 'data'}",
            "4lw.commands.whitelist=*",
            "maxClientCnxns=0",
            f"minSessionTimeout={wanted.session_min_ms}",
            "maxSessionTimeout=60000",
        ]
        if count == 1:
            lines += [f"clientPort={port}", f"clientPortAddress={host}"]
            lines += [] if tls is None else _tls_settings(tls, host, ports[3 * count + n])
        else:
            lines += ["initLimit=25", "syncLimit=10", "standaloneEnabled=false", *members]
            lines += ["reconfigEnabled=true"]
            (place / "data" / "myid").write_text(str(n + 1))
        (place / "zoo.cfg").write_text("\n".join(lines) + "\n")
        servers.append(Server(installation, place, host, port, ports[3 * count + n]))
    return Ensemble(servers)


def _tls_settings(tls: ServerTls, host: str, port: int) -> list[str]:
    return [
        f"secureClientPort={port}",
        f"secureClientPortAddress={host}",
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        f"ssl.keyStore.location={tls.key_and_certificate}",
        f"ssl.trustStore.location={tls.authority}",
        "ssl.clientAuth=need",
    ]
