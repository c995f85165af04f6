"""Ledgers: write, read and recover them through quorums of bookies. This is the front door.

In this family the client is the protocol: it alone decides what is acknowledged, in which order,
and where a ledger ends. Bookies keep what they are told and honour a fence.

Applications import from here, and from nowhere below::

    from zonekeeper.client import ClientConfig, Digest, Quorums, blocking, connect, errors

A name is loaded when it is first asked for. So a command that needs only ``errors`` does not load
gRPC, which would double the time of its start.
"""

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zonekeeper.client.api import blocking
    from zonekeeper.client.api.client import Client, connect
    from zonekeeper.client.api.reader import Reader
    from zonekeeper.client.api.writer import Writer
    from zonekeeper.client.base import errors
    from zonekeeper.client.base.config import ClientConfig
    from zonekeeper.placement.base.digests import Digest
    from zonekeeper.placement.base.quorums import Quorums

__all__ = (
    "Client",
    "ClientConfig",
    "Digest",
    "Quorums",
    "Reader",
    "Writer",
    "blocking",
    "connect",
    "errors",
)

#: The module that each name is in; a module stands for itself.
_HOMES: Final = {
    "Client": "zonekeeper.client.api.client",
    "ClientConfig": "zonekeeper.client.base.config",
    "Digest": "zonekeeper.placement.base.digests",
    "Quorums": "zonekeeper.placement.base.quorums",
    "Reader": "zonekeeper.client.api.reader",
    "Writer": "zonekeeper.client.api.writer",
    "blocking": "zonekeeper.client.api.blocking",
    "connect": "zonekeeper.client.api.client",
    "errors": "zonekeeper.client.base.errors",
}

if not TYPE_CHECKING:  # a type checker would take any name for one that is there

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = importlib.import_module(home)
        return module if home.endswith(f".{name}") else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
