"""The property files of Apache's programs: three settings of bookies and clients, and ZooKeeper's.

``default`` is what Apache ships. ``tuned`` is for throughput: the v2 protocol, DbLedgerStorage, a
larger journal buffer and short group commits. ``latency`` is ``tuned`` whose journal does not wait.
Each is one tuning for a machine of few cores, and not an optimum. Pure.

Three things differ from what Apache ships in all settings, and none favours us: the client's
``throttle`` is 0 (5,000 appends a second else), no journal is kept once it is checkpointed, and
deleted ledgers are collected every two minutes, so that a race does not fill the disk.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zonekeeper.wire.grpc.tls import TlsFiles


class ApacheSetting(enum.Enum):
    """A way to set Apache BookKeeper up."""

    DEFAULT = "default"
    TUNED = "tuned"
    LATENCY = "latency"


_EVERY_BOOKIE: Final = {
    "advertisedAddress": "127.0.0.1",
    "allowLoopback": "true",
    "httpServerEnabled": "false",
    "journalMaxBackups": "0",
}
_TUNED_BOOKIE: Final = {
    "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
    "dbStorage_writeCacheMaxSizeMb": "512",
    "dbStorage_readAheadCacheMaxSizeMb": "256",
    "dbStorage_readAheadCacheBatchSize": "1000",
    "dbStorage_rocksDB_blockCacheSize": "67108864",
    "journalWriteBufferSizeKB": "1024",
    "journalBufferedWritesThreshold": "1048576",
    "journalMaxGroupWaitMSec": "1",
    "journalAdaptiveGroupWrites": "true",
    "journalPreAllocSizeMB": "64",
    "journalReuseFiles": "true",
    "journalMaxSizeMB": "512",
    "journalAlignmentSize": "4096",
    "numAddWorkerThreads": "1",
    "numReadWorkerThreads": "1",
    "numHighPriorityWorkerThreads": "1",
    "serverNumIOThreads": "1",
    "busyWaitEnabled": "false",
    "maxPendingAddRequestsPerThread": "100000",
    "maxPendingReadRequestsPerThread": "100000",
    "writeBufferSizeBytes": "1048576",
}
_LATENCY_BOOKIE: Final = {
    **_TUNED_BOOKIE,
    "journalMaxGroupWaitMSec": "0",
    "journalFlushWhenQueueEmpty": "true",
    "journalWriteBufferSizeKB": "512",
}
_BOOKIES: Final[Mapping[ApacheSetting, Mapping[str, str]]] = {
    ApacheSetting.DEFAULT: {},
    ApacheSetting.TUNED: _TUNED_BOOKIE,
    ApacheSetting.LATENCY: _LATENCY_BOOKIE,
}
_EVERY_CLIENT: Final = {"throttle": "0", "numIOThreads": "1", "numWorkerThreads": "1"}

_EVERY_TLS: Final = {
    "tlsProvider": "OpenSSL",
    "tlsProviderFactoryClass": "org.apache.bookkeeper.tls.TLSContextFactory",
    "tlsClientAuthentication": "true",
}

#: What the JVM of a bookie has.
BOOKIE_JVM: Final = ("-Xms512m", "-Xmx1g", "-XX:MaxDirectMemorySize=2g", "-XX:+UseG1GC")
CLIENT_JVM: Final = ("-Xms512m", "-Xmx1g", "-XX:MaxDirectMemorySize=1g", "-XX:+UseG1GC")

LOG4J: Final = """<Configuration><Appenders><Console name="out" target="SYSTEM_ERR">
<PatternLayout pattern="%d %p %c{1} - %m%n"/></Console></Appenders>
<Loggers><Root level="LEVEL"><AppenderRef ref="out"/></Root></Loggers></Configuration>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """How often a bookie looks after its disk, on both sides."""

    collect_s: int = 120
    #: None: as often as each side does by itself.
    minor_s: int | None = None
    major_s: int | None = None


def text(values: Mapping[str, str]) -> str:
    """Spell a property file; raises ValueError for what the format would read otherwise."""
    for name, value in values.items():
        if "\n" in name + value or "=" in name or value != value.strip() or "," in value:
            raise ValueError(f"a property file cannot hold {name!r}={value!r}")
    return "".join(f"{name}={value}\n" for name, value in values.items())


def tls(files: TlsFiles | None, prefix: str) -> dict[str, str]:
    """Give the properties of TLS in both directions; ``prefix``: ``tls`` of bookies, or client."""
    if files is None:
        return {}
    return {
        **_EVERY_TLS,
        f"{prefix}KeyStoreType": "PEM",
        f"{prefix}KeyStore": str(files.key),
        "tlsCertificatePath": str(files.certificate),
        f"{prefix}TrustStoreType": "PEM",
        f"{prefix}TrustStore": str(files.authority),
    }


def bookie(
    setting: ApacheSetting,
    metadata_uri: str,
    port: int,
    folder: Path,
    upkeep: Upkeep,
    files: TlsFiles | None = None,
) -> str:
    """Give the property file of one bookie."""
    compaction = {
        name: str(seconds)
        for name, seconds in (
            ("minorCompactionInterval", upkeep.minor_s),
            ("majorCompactionInterval", upkeep.major_s),
        )
        if seconds is not None
    }
    return text(
        {
            "metadataServiceUri": metadata_uri,
            "bookiePort": str(port),
            **_EVERY_BOOKIE,
            **{f"{kind}Directories": str(folder / kind) for kind in ("journal", "ledger", "index")},
            "gcWaitTime": str(upkeep.collect_s * 1_000),
            **compaction,
            **_BOOKIES[setting],
            **tls(files, "tls"),
        }
    )


def client(setting: ApacheSetting, metadata_uri: str, files: TlsFiles | None = None) -> str:
    """Give the property file of a client."""
    protocol = {} if setting is ApacheSetting.DEFAULT else {"useV2WireProtocol": "true"}
    return text(
        {"metadataServiceUri": metadata_uri, **_EVERY_CLIENT, **protocol, **tls(files, "client")}
    )


def metadata_uri(port: int, root: str) -> str:
    """Give Apache's address of a root in ZooKeeper."""
    return f"zk+hierarchical://127.0.0.1:{port}{root}"


def zookeeper(port: int, folder: Path) -> str:
    """Give the configuration of the ZooKeeper of all sides; it syncs what it writes."""
    return text(
        {
            "tickTime": "2000",
            "dataDir": str(folder / "data"),
            "clientPort": str(port),
            "clientPortAddress": "127.0.0.1",
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
        }
    )


def log4j(level: str) -> str:
    """Give the logging of a program; it goes to standard error."""
    return LOG4J.replace("LEVEL", level)
