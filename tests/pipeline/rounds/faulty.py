"""A sink that is struck at a named point, once: Spark's workers import it.

The option ``armed`` names a file with a point and a kind of fault. The first process that comes to
the point takes the file away, and the fault happens to it:

- ``raise``: the task fails. ``exit``: the Python worker is killed. ``jvm``: the JVM that started
  this worker is killed: an executor's in a task, the driver's at a commit.
- ``wait``: the process says that it is there (``.waits``), and goes on when it may (``.goes``).
  What happens meanwhile happens while it is at the point.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from zonekeeper.pipeline.reading.columns import RecordBatch
from zonekeeper.pipeline.sink import log_sink
from zonekeeper.pipeline.sink.log_sink import LogStreamWriter, PartWritten
from zonekeeper.pipeline.source.data_source import LedgerSource

#: The points, each where it is passed.
IN_TASK = ("before", "in", "after")
AT_COMMIT = ("before-publish", "after-publish")
LOOK_S = 0.01
LIFE_S = 120


class FaultySource(LedgerSource):
    @classmethod
    def name(cls) -> str:
        return "faulty"

    def streamWriter(self, schema: StructType, overwrite: bool) -> LogStreamWriter:  # noqa: N802 Spark's
        given = dict(self.options)
        armed = given.pop("armed")
        return FaultyWriter(armed, log_sink.of_stream(given, schema, overwrite=overwrite))


class FaultyWriter(LogStreamWriter):
    def __init__(self, armed: str, of: LogStreamWriter) -> None:
        super().__init__(of._options)
        self._armed = armed

    def write(self, iterator: Iterator[RecordBatch]) -> PartWritten:
        strike(self._armed, "before")
        written = super().write(self._passing(iterator))
        strike(self._armed, "after")
        return written

    def _passing(self, iterator: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        for batch in iterator:
            yield batch
            if batch.num_rows:
                strike(self._armed, "in")

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 Spark's
        strike(self._armed, "before-publish")
        super().commit(messages, batchId)
        strike(self._armed, "after-publish")


def strike(armed: str, point: str) -> None:
    """Let the fault of the file happen, if this is its point and nobody was faster."""
    file = Path(armed)
    try:
        where, kind = file.read_text().split()
        if where != point:
            return
        file.rename(file.with_suffix(".taken"))
    except FileNotFoundError:
        return
    match kind:
        case "raise":
            raise RuntimeError(f"struck at {point}")
        case "exit":
            os.kill(os.getpid(), signal.SIGKILL)
        case "jvm":
            os.kill(jvm(), signal.SIGKILL)
            time.sleep(LIFE_S)  # nothing of this process is to come behind the JVM's end
            os._exit(9)
        case "wait":
            file.with_suffix(".waits").touch()
            while not file.with_suffix(".goes").exists():
                time.sleep(LOOK_S)
        case _:
            raise AssertionError(kind)


def jvm() -> int:
    """Give the process id of the nearest JVM that this process descends from."""
    pid = os.getppid()
    while pid > 1:
        if b"java" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]:
            return pid
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    raise AssertionError("no JVM started this process")
