"""Found by Spark: it looks for modules ``pyspark_…`` and takes their ``DefaultSource``.

Spark imports this in every session that looks for a Python data source, whether it is ours or not.
So a missing dependency is no error here: it is told to the person who asks for ``zonekeeper``.
"""

from pyspark.sql.datasource import DataSource

__all__ = ("DefaultSource",)

DefaultSource: type[DataSource]

try:
    from zonekeeper.pipeline.source.data_source import LedgerSource
except ModuleNotFoundError as error:
    _LACKING = error.name or str(error)

    class WithoutExtra(DataSource):
        """Stands for the source in a Python that lacks what it needs."""

        def __init__(self, options: object) -> None:
            raise ImportError(self.lacking())

        @classmethod
        def name(cls) -> str:
            """Give the format's name."""
            return "zonekeeper"

        @staticmethod
        def lacking() -> str:
            """Say what is missing, and what to do."""
            return (
                f"this Python has zonekeeper, and not {_LACKING}, which its source for Spark "
                "needs: pip install 'zonekeeper[pipeline]' on the driver and on every executor"
            )

    DefaultSource = WithoutExtra
else:
    DefaultSource = LedgerSource
