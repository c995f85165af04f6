"""Where a job writes its rows: a path, whose ending says the format. Spark makes it a folder.

Nothing is ever overwritten. A path that exists is refused before a ledger is read.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, MapType, StructType

from zonekeeper.placement.base.troubles import Refusal

HTML: Final = ".html"
TABLES: Final = (".parquet", ".csv", ".json")


class OutputRefused(Refusal):
    """The output cannot be where it is wanted; nothing was read and nothing written."""


def ending(path: str, allowed: tuple[str, ...]) -> str:
    """Give the ending that says the format; raises ``OutputRefused``."""
    found = next((one for one in allowed if path.endswith(one)), None)
    if found is None:
        raise OutputRefused(
            f"--output {path}: its ending says the format, and must be one of {', '.join(allowed)}"
        )
    return found


def check_apart(paths: Sequence[str]) -> None:
    """Raise ``OutputRefused`` for a path that is given twice: the second writing would fail."""
    twice = next((path for at, path in enumerate(paths) if path in paths[:at]), None)
    if twice is not None:
        raise OutputRefused(f"--output {twice}: is given twice; name each path once")


def check_absent(spark: SparkSession, path: str) -> None:
    """Raise ``OutputRefused`` if there is something at a path already."""
    if not path.endswith(HTML) and _is_there(spark, path):
        raise _exists(path)


def check_no_file(path: str) -> None:
    """Raise ``OutputRefused`` if a page cannot be written at a path of this machine."""
    if Path(path).exists():
        raise _exists(path)
    if not Path(path).absolute().parent.is_dir():
        raise OutputRefused(f"--output {path}: there is no folder {Path(path).absolute().parent}")


def write_page(text: str, path: str) -> None:
    """Write a page to a file of this machine, unless the file exists."""
    try:
        with Path(path).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise _exists(path) from None


def _exists(path: str) -> OutputRefused:
    return OutputRefused(
        f"--output {path}: exists already, and nothing is overwritten; name another path, or "
        "remove it"
    )


def _is_there(spark: SparkSession, path: str) -> bool:
    try:
        # Whatever is there is not read: the columns of a text are known.
        return bool(spark.read.text(path).columns)
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return False
        raise


def write_table(frame: DataFrame, path: str) -> None:
    """Write rows in the format that the path's ending says."""
    match ending(path, TABLES):
        case ".parquet":
            frame.write.parquet(path)
        case ".json":
            frame.write.json(path, ignoreNullFields=False)
        case _:
            _flat(frame).write.csv(path, header=True, escape='"')


def _flat(frame: DataFrame) -> DataFrame:
    """Give the rows with lists as texts in JSON, because a cell of CSV holds no list."""
    return frame.select(
        *[
            sql.to_json(field.name).alias(field.name)
            if isinstance(field.dataType, ArrayType | MapType | StructType)
            else sql.col(field.name)
            for field in frame.schema.fields
        ]
    )
