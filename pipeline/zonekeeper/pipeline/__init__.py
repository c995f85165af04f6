"""Spark: ledgers and logs as frames and streams, and jobs over a whole cluster. The front door.

``LedgerSource`` is the data source, which is the sink, too. Each job is a function that gives a
DataFrame, and a command (``python -m zonekeeper.pipeline``). A name is imported when it is first
used. So the command can say in one line that Spark is not installed.
"""

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zonekeeper.pipeline.base.one_line import NotRead, NotWritten
    from zonekeeper.pipeline.jobs.placement_audit import placement_audit
    from zonekeeper.pipeline.jobs.replica_audit import replica_audit
    from zonekeeper.pipeline.jobs.zone_repair import zone_repair
    from zonekeeper.pipeline.jobs.zone_report import zone_report
    from zonekeeper.pipeline.source.data_source import LedgerSource

__all__ = (
    "LedgerSource",
    "NotRead",
    "NotWritten",
    "placement_audit",
    "replica_audit",
    "zone_repair",
    "zone_report",
)

_HOMES: Final = {
    "LedgerSource": "zonekeeper.pipeline.source.data_source",
    "NotRead": "zonekeeper.pipeline.base.one_line",
    "NotWritten": "zonekeeper.pipeline.base.one_line",
    "placement_audit": "zonekeeper.pipeline.jobs.placement_audit",
    "replica_audit": "zonekeeper.pipeline.jobs.replica_audit",
    "zone_repair": "zonekeeper.pipeline.jobs.zone_repair",
    "zone_report": "zonekeeper.pipeline.jobs.zone_report",
}

if not TYPE_CHECKING:  # with a module __getattr__, a type checker would accept any name

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
