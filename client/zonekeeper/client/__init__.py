"""Write, read and recover ledgers through quorums of bookies. This is the front door.

In the BookKeeper family the client runs the protocol. The client alone decides which entries are
acknowledged, in which order, and where a ledger ends. A bookie stores what it is sent, and refuses
the writer of a fenced ledger.

Applications import from here, and from nowhere below::

    from zonekeeper.client import ClientConfig, Digest, Quorums, blocking, connect, errors

A name is loaded when it is first used. So a command that needs only ``errors`` does not load gRPC.
Loading gRPC would double the start time of such a command.
"""

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zonekeeper.client.api import blocking
    from zonekeeper.client.api.client import Client, connect
    from zonekeeper.client.api.making import Making
    from zonekeeper.client.api.reader import ReadBatch, Reader
    from zonekeeper.client.api.tail import Tail
    from zonekeeper.client.api.writer import Writer
    from zonekeeper.client.base import errors
    from zonekeeper.client.base.config import ClientConfig
    from zonekeeper.client.base.counters import ClientCounters
    from zonekeeper.client.base.ways import BookieWay
    from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
    from zonekeeper.metadata.stores.timeouts import Timeouts
    from zonekeeper.placement.base.digests import Digest
    from zonekeeper.placement.base.quorums import Quorums
    from zonekeeper.wire.contract.links import LinkSettings
    from zonekeeper.wire.formats.entries import Entry
    from zonekeeper.wire.grpc.tls import TlsFiles

__all__ = (
    "BookieWay",
    "Client",
    "ClientConfig",
    "ClientCounters",
    "Digest",
    "Entry",
    "LedgerMetadata",
    "LinkSettings",
    "Making",
    "Quorums",
    "ReadBatch",
    "Reader",
    "Tail",
    "Timeouts",
    "TlsFiles",
    "Writer",
    "blocking",
    "connect",
    "errors",
)

#: For each name, the module that defines it. A name that is a module maps to that module.
_HOMES: Final = {
    "BookieWay": "zonekeeper.client.base.ways",
    "Client": "zonekeeper.client.api.client",
    "ClientConfig": "zonekeeper.client.base.config",
    "ClientCounters": "zonekeeper.client.base.counters",
    "Digest": "zonekeeper.placement.base.digests",
    "Entry": "zonekeeper.wire.formats.entries",
    "LedgerMetadata": "zonekeeper.metadata.formats.ledger_metadata",
    "LinkSettings": "zonekeeper.wire.contract.links",
    "Making": "zonekeeper.client.api.making",
    "Quorums": "zonekeeper.placement.base.quorums",
    "ReadBatch": "zonekeeper.client.api.reader",
    "Reader": "zonekeeper.client.api.reader",
    "Tail": "zonekeeper.client.api.tail",
    "Timeouts": "zonekeeper.metadata.stores.timeouts",
    "TlsFiles": "zonekeeper.wire.grpc.tls",
    "Writer": "zonekeeper.client.api.writer",
    "blocking": "zonekeeper.client.api.blocking",
    "connect": "zonekeeper.client.api.client",
    "errors": "zonekeeper.client.base.errors",
}

if not TYPE_CHECKING:  # with a module __getattr__, a type checker would accept any name

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = importlib.import_module(home)
        return module if home.endswith(f".{name}") else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
