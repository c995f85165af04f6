"""Troubles of a read or a write, told to the person who runs the query in one line.

Spark shows the text that its Python worker makes of an exception: a traceback of many frames, and
at the end the message. For a trouble the frames say nothing, as the message says what was wrong,
where, and what to do. So a trouble leaves the source as ``NotRead``, and the sink as
``NotWritten``. The worker is told to leave the traceback out: Spark's own variable says so, and is
looked at when the exception is reported. A worker that has reported an exception ends, so no other
query is touched. A bug of ours keeps its traceback.

This says nothing about what the JVM writes to its own log.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from zonekeeper.client.base.errors import NoSuchLedger, Unauthorized
from zonekeeper.log.publishing.partitions import CopyTaken
from zonekeeper.metadata.formats.log_record import LogTaken
from zonekeeper.placement.base.fields import InvalidFieldsError
from zonekeeper.placement.base.troubles import Trouble

#: Spark's variable: the worker reports the last line of an exception only.
HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"
#: What to do, where the error of the client cannot know it.
_ADVICE: Final = {
    NoSuchLedger: "`zonekeeper ledger list` shows those that are there",
    Unauthorized: 'give a file with the password: .option("passwordFile", "/path"), or in SQL '
    "SELECT ... FROM t WITH (passwordFile = '/path')",
    LogTaken: "a query takes it when it is started again",
}


class NotRead(Trouble):
    """The ledger cannot be read as requested; the message is one line."""


class NotWritten(Trouble):
    """The log cannot be written as requested; the message is one line."""


# Spark shows the full name of the class before the message: the name by which it is imported.
NotRead.__module__ = "zonekeeper.pipeline"
NotWritten.__module__ = "zonekeeper.pipeline"


@contextmanager
def told(kind: type[NotRead | NotWritten] = NotRead, about: str = "") -> Iterator[None]:
    """Turn a trouble of the block into one of a kind, which Spark shows in one line.

    ``about``: what the block deals with; it stands before a message that does not name it.
    """
    try:
        yield
    except (Trouble, OSError) as error:
        if _in_worker():
            os.environ[HIDE_TRACEBACK] = "1"
        line = line_of(error)
        said = kind(line if about in line else f"{about}: {line}")
        if isinstance(error, Trouble):
            said.retryable, said.maybe_applied = error.retryable, error.maybe_applied
        raise said from None


def line_of(error: Trouble | OSError) -> str:
    """Give the message of an error as one line, with what to do."""
    faults = [one for one in str(error).splitlines() if one.strip()]
    if isinstance(error, InvalidFieldsError) and len(faults) > 1:
        faults = [f"({number}) {fault}" for number, fault in enumerate(faults, 1)]
        return f"{len(faults)} faults: {' '.join(faults)}"
    advice = [text for kind, text in _ADVICE.items() if isinstance(error, kind)]
    if isinstance(error, CopyTaken):
        advice = []  # it is not taken back: the error says what to do
    return "; ".join([" ".join(faults) or type(error).__name__, *advice])


def _in_worker() -> bool:
    """Is this process one that Spark started for Python code, and not a program of the user?"""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")
