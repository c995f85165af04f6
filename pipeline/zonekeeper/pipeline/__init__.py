"""Spark: ledgers and logs as frames and streams, and jobs over a whole cluster. The front door.

``LedgerSource`` is the data source, which is the sink, too. Each job is a function and a command
(``python -m zonekeeper.pipeline``). The function gives a DataFrame, but for the jobs that copy a
log. A name is imported when it is first
used. So the command can say in one line that Spark is not installed.
"""

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zonekeeper.pipeline.base.one_line import NotRead, NotWritten
    from zonekeeper.pipeline.jobs.log_export import log_export
    from zonekeeper.pipeline.jobs.log_import import log_import
    from zonekeeper.pipeline.jobs.log_mirror import log_mirror
    from zonekeeper.pipeline.jobs.placement_audit import placement_audit
    from zonekeeper.pipeline.jobs.replica_audit import replica_audit
    from zonekeeper.pipeline.jobs.zone_repair import zone_repair
    from zonekeeper.pipeline.jobs.zone_report import zone_report
    from zonekeeper.pipeline.source.data_source import LedgerSource

__all__ = (
    "LedgerSource",
    "NotRead",
    "NotWritten",
    "log_export",
    "log_import",
    "log_mirror",
    "placement_audit",
    "replica_audit",
    "zone_repair",
    "zone_report",
)

_HOMES: Final = {
    "LedgerSource": "zonekeeper.pipeline.source.data_source",
    "NotRead": "zonekeeper.pipeline.base.one_line",
    "NotWritten": "zonekeeper.pipeline.base.one_line",
    "log_export": "zonekeeper.pipeline.jobs.log_export",
    "log_import": "zonekeeper.pipeline.jobs.log_import",
    "log_mirror": "zonekeeper.pipeline.jobs.log_mirror",
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
