"""Files where Spark writes, beside its tables: a manifest, and a folder that gets its name last.

They are reached as Spark reaches them, by Hadoop's file systems: a path may be of the driver's
machine, of HDFS or of an object store. A driver over Spark Connect has no way to them.
"""

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from zonekeeper.placement.base.troubles import Refusal, Trouble


class FilesRefused(Refusal):
    """The files cannot be read or written as wanted; nothing was changed."""


class NotRenamed(Trouble):
    """A folder did not get its name; the message says what is left."""

    retryable = True


class HadoopFiles:
    """The files that a session's driver reaches."""

    def __init__(self, spark: SparkSession) -> None:
        """Raise ``FilesRefused`` for a session that has no JVM of its own."""
        if not hasattr(spark, "sparkContext"):
            raise FilesRefused(
                "a log is not exported or imported over Spark Connect, because its client does not "
                "reach the files; nothing was done: run the job by spark-submit"
            )
        jvm = spark.sparkContext._jvm  # noqa: SLF001 the way to Hadoop's classes
        assert jvm is not None, "the session runs"
        self._jvm = jvm
        self._conf = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 it, too

    def is_there(self, path: str) -> bool:
        """Is there a file or a folder at a path?"""
        return bool(self._system(path).exists(self._path(path)))

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that it has; nothing happens if there is none."""
        self._system(path).delete(self._path(path), True)

    def rename(self, path: str, name: str) -> None:
        """Give a folder another name. Hadoop would move it into a folder that has the name."""
        if self.is_there(name) or not self._system(path).rename(self._path(path), self._path(name)):
            raise NotRenamed(
                f"{path} could not be given the name {name}, which may be there by now"
            )

    def write(self, path: str, raw: bytes) -> None:
        """Write a file that is not there."""
        out = self._system(path).create(self._path(path), False)
        try:
            out.write(bytearray(raw))
        finally:
            out.close()

    def read(self, path: str, most: int) -> bytes:
        """Read a file of at most so many bytes."""
        system, at = self._system(path), self._path(path)
        size = system.getFileStatus(at).getLen()
        if size > most:
            raise FilesRefused(f"{path} has {size} bytes; the limit is {most}; it was not read")
        stream = system.open(at)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def _path(self, path: str) -> JavaObject:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _system(self, path: str) -> JavaObject:
        return self._path(path).getFileSystem(self._conf)
