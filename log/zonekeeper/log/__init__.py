"""Log streams: logs without an end, on ledgers. This is the front door.

A ledger ends with its writer. A log is a chain of ledgers, and outlives its writers.

Applications import from here, and from nowhere below::

    from zonekeeper.log import LogMessage, LogRules, blocking, connect

A name is loaded when it is first used, as in ``zonekeeper.client``.
"""

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zonekeeper.log.api import blocking
    from zonekeeper.log.api.log_client import LogClient, connect
    from zonekeeper.log.api.log_cursor import LogCursor
    from zonekeeper.log.api.log_reader import LogReader, ReadMessage, ReadMessages
    from zonekeeper.log.api.log_standby import LogStandby, LogTurn
    from zonekeeper.log.api.log_writer import LogWriter
    from zonekeeper.log.base import errors
    from zonekeeper.log.formats.messages import LogMessage
    from zonekeeper.log.publishing import blocking_queries, query_logs
    from zonekeeper.log.publishing.partitions import QueryBatch
    from zonekeeper.metadata.formats.log_record import LogRules
    from zonekeeper.metadata.formats.message_ids import MessageId
    from zonekeeper.metadata.logs.log_queries import QueryRun

__all__ = (
    "LogClient",
    "LogCursor",
    "LogMessage",
    "LogReader",
    "LogRules",
    "LogStandby",
    "LogTurn",
    "LogWriter",
    "MessageId",
    "QueryBatch",
    "QueryRun",
    "ReadMessage",
    "ReadMessages",
    "blocking",
    "blocking_queries",
    "connect",
    "errors",
    "query_logs",
)

#: For each name, the module that defines it. A name that is a module maps to that module.
_HOMES: Final = {
    "LogClient": "zonekeeper.log.api.log_client",
    "LogCursor": "zonekeeper.log.api.log_cursor",
    "LogMessage": "zonekeeper.log.formats.messages",
    "LogReader": "zonekeeper.log.api.log_reader",
    "LogRules": "zonekeeper.metadata.formats.log_record",
    "LogStandby": "zonekeeper.log.api.log_standby",
    "LogTurn": "zonekeeper.log.api.log_standby",
    "LogWriter": "zonekeeper.log.api.log_writer",
    "MessageId": "zonekeeper.metadata.formats.message_ids",
    "QueryBatch": "zonekeeper.log.publishing.partitions",
    "QueryRun": "zonekeeper.metadata.logs.log_queries",
    "ReadMessage": "zonekeeper.log.api.log_reader",
    "ReadMessages": "zonekeeper.log.api.log_reader",
    "blocking": "zonekeeper.log.api.blocking",
    "blocking_queries": "zonekeeper.log.publishing.blocking_queries",
    "connect": "zonekeeper.log.api.log_client",
    "errors": "zonekeeper.log.base.errors",
    "query_logs": "zonekeeper.log.publishing.query_logs",
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
