"""A real ZooKeeper server for a local cluster, run from installed files.

pyspark installs ZooKeeper's jars, and itself needs Java. So nothing is downloaded here. There is
one server, on the loopback address. It can be killed, and comes back with its data. It is no
quorum.
"""

import importlib.util
import os
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zonekeeper.shell.local.local_folder import LOOPBACK, BadRequestError

#: All jars that a server without TLS needs.
_JARS: Final = (
    "zookeeper-3*",
    "zookeeper-jute-*",
    "slf4j-api-*",
    "metrics-core-*",
    "snappy-java-*",
)
_JVM: Final = (
    *("-Xms32m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    "-Dzookeeper.admin.enableServer=false",
)
_MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_SETTINGS: Final = "zoo.cfg"
_SERVING: Final = b"Mode: standalone"
_ANSWER_TIMEOUT_S: Final = 1
_READ_BYTES: Final = 4_096


@dataclass(frozen=True, slots=True)
class Installation:
    """The installed files that a server runs from."""

    java: Path
    jars: tuple[Path, ...]


def find() -> Installation:
    """Find Java and the jars; raises ``BadRequestError`` that says what is missing."""
    java, jars = _java(), tuple(_jars())
    if java is None:
        raise BadRequestError(
            "--zookeeper: there is no Java here: install a JRE (17 or newer), or set JAVA_HOME"
        )
    if len(jars) < len(_JARS):
        raise BadRequestError(
            "--zookeeper: its jars come with pyspark, and that is not installed here: "
            "pip install 'zonekeeper[pipeline]'"
        )
    return Installation(java, jars)


def command(found: Installation, folder: Path, port: int) -> list[str]:
    """Write the server's settings, and give the command that runs the server."""
    folder.mkdir(exist_ok=True)
    lines = {
        "tickTime": "500",
        "dataDir": str(folder / "data"),
        "clientPort": str(port),
        "clientPortAddress": LOOPBACK,
        "maxClientCnxns": "0",
        "minSessionTimeout": "1000",
        "maxSessionTimeout": "60000",
    }
    settings = folder / _SETTINGS
    settings.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    path = os.pathsep.join(map(str, found.jars))
    return [str(found.java), *_JVM, "-cp", path, _MAIN, str(settings)]


def free_port() -> int:
    """Give a port that is free now."""
    with socket.socket() as asked:
        asked.bind((LOOPBACK, 0))
        return int(asked.getsockname()[1])


def serves(port: int) -> bool:
    """Say whether the server on a loopback port serves clients now."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=_ANSWER_TIMEOUT_S) as asked:
            asked.sendall(b"srvr")  # one of ZooKeeper's four-letter words
            return _SERVING in b"".join(iter(lambda: asked.recv(_READ_BYTES), b""))
    except OSError:
        return False


def _java() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return Path(home) / "bin" / "java"
    found = shutil.which("java")
    return None if found is None else Path(found)


def _jars() -> Iterator[Path]:
    """Give the first jar for each pattern of ``_JARS`` that has one."""
    spark = importlib.util.find_spec("pyspark")
    folders = () if spark is None else spark.submodule_search_locations or ()
    for name in _JARS:
        matching = (jar for folder in folders for jar in Path(folder, "jars").glob(f"{name}.jar"))
        yield from sorted(matching)[:1]
