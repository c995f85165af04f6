"""Spark on this machine, with executors that are processes of their own.

With the master ``local`` tasks run in the driver, so no executor can die alone. The master
``local-cluster`` starts each executor as a process, and starts another one when it dies. It keeps
their folders in ``SPARK_HOME``. So the ``SPARK_HOME`` of a session is a folder of its own, with
links to what is installed, and goes with it.

A session sets variables of its process, and ends its JVM. So a process has one in its life.
"""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

_MEMORY_MB: Final = 512
#: What an executor uses beside its heap is not limited; the worker of a cluster must offer more.
_OFFERED_MB: Final = 768
#: Without an appender Spark would take its own settings, and without the last two lines say so.
SILENT: Final = """\
appender.none.type = Null
appender.none.name = none
rootLogger.level = off
rootLogger.appenderRef.none.ref = none
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
"""
_EXECUTOR: Final = b"CoarseGrainedExecutorBackend"
#: Behind the name in brackets.
_PARENT_AT: Final = 1


@contextmanager
def session(
    folder: Path, name: str, executors: int, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Give a session with so many executors of one core, all of whose files are in a folder."""
    home = folder / "spark"
    home.mkdir()
    for installed in Path(pyspark.__file__).parent.iterdir():
        (home / installed.name).symlink_to(installed)
    properties = folder / "log4j2.properties"
    properties.write_text(SILENT)
    os.environ |= {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        # Else workers run the first python3 on the PATH, which may lack what this one has.
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    logging.getLogger("py4j").setLevel(logging.ERROR)
    silent = f"-Dlog4j2.configurationFile={properties}"
    every = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder / "scratch"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": f"{_MEMORY_MB}m",
        "spark.executor.memory": f"{_MEMORY_MB}m",
        "spark.driver.extraJavaOptions": silent,
        "spark.executor.extraJavaOptions": silent,
        **(settings or {}),
    }
    builder = SparkSession.builder.appName(name)
    for key, value in every.items():
        builder = builder.config(key, value)
    made = builder.master(f"local-cluster[{executors},1,{_OFFERED_MB}]").getOrCreate()
    jvm = _jvm()
    try:
        yield made
    finally:
        try:
            made.stop()
        finally:
            jvm.communicate()  # it ends when nobody can say anything to it any more


def driver() -> int:
    """Give the process id of this session's driver, which is the parent of its executors."""
    return _jvm().pid


def _jvm() -> "subprocess.Popen[bytes]":
    gateway = SparkContext._gateway  # noqa: SLF001 pyspark has no public name for it
    assert gateway is not None, "there is a session"
    found: subprocess.Popen[bytes] = gateway.proc
    return found


def executors(of_driver: int) -> list[int]:
    """Give the process ids of the executors that a driver has now."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if not folder.name.isdigit() or _EXECUTOR not in (folder / "cmdline").read_bytes():
                continue
            stat = (folder / "stat").read_text("ascii", "replace").rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        if int(stat[_PARENT_AT]) == of_driver:
            found.append(int(folder.name))
    return sorted(found)
