"""Spark: ledgers as DataFrames. This is the front door: ``LedgerSource`` is the data source."""

from zonekeeper.pipeline.base.one_line import NotRead
from zonekeeper.pipeline.source.data_source import LedgerSource

__all__ = ("LedgerSource", "NotRead")
