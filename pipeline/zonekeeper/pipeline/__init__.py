"""Spark: ledgers and logs as frames and streams. The front door: ``LedgerSource`` is the source."""

from zonekeeper.pipeline.base.one_line import NotRead
from zonekeeper.pipeline.source.data_source import LedgerSource

__all__ = ("LedgerSource", "NotRead")
