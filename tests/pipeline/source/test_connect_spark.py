"""Spark Connect: a client without a JVM finds the source on its server, reads a log, writes one."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc
import pyspark
import pytest

from tests.support import held_ports, java_runtime
from tests.support.checkout_root import ROOT
from zonekeeper.log.api.blocking import BlockingLogs
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.pipeline.demo import local_spark

pytestmark = pytest.mark.spark

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
LIMIT_S = 300


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A server of Spark Connect, with Spark inside it."""
    java_runtime.require("Spark")
    (tmp_path / "log4j2.properties").write_text(local_spark.SILENT)
    options = f"-Dlog4j2.configurationFile={tmp_path / 'log4j2.properties'}"
    with ExitStack() as held, (tmp_path / "log").open("wb") as log:
        (port,) = held_ports.choose(1, "127.0.0.1", held)
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
            "spark.driver.extraJavaOptions": options,
            "spark.driver.memory": "768m",
            "spark.local.dir": str(tmp_path / "scratch"),
            "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
            "spark.ui.enabled": "false",
        }
        process = subprocess.Popen(
            [
                str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
                *("--master", "local[2]", "--class", SERVER),
                *(word for name, text in settings.items() for word in ("--conf", f"{name}={text}")),
                "spark-internal",
            ],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=tmp_path,
        )
        try:
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                grpc.channel_ready_future(channel).result(timeout=LIMIT_S)
            yield f"sc://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


def test_a_client_of_spark_connect_reads_a_log_and_writes_one(
    server: str, cluster_address: str, logs: BlockingLogs
) -> None:
    many = [
        LogMessage(
            payload=b"%d" % number,
            key=None if number % 3 else b"k",
            headers=(("n", b"%d" % number),) if number % 5 == 0 else (),
        )
        for number in range(1_000)
    ]
    for name in ("connect/from", "connect/to"):
        logs.create(name)
    with logs.writer("connect/from") as writer:
        writer.flushed(writer.append_many(many) - 1)

    asked = (server, cluster_address, "connect/from", "connect/to")
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.source.connect_query", *asked],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=LIMIT_S,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["pyspark.sql.connect.session", "1000", "999"]
    came = list(logs.reader("connect/to").read_messages())
    assert [one.sequence for one in came] == list(range(500))
    assert [one.message for one in came] == many[::2]
