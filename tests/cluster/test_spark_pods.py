"""Spark on Kubernetes: a job and a stream in pods, executors in three zones, one node lost.

Nodes are shut for new pods (cordoned), so that the node that is lost has an executor, and neither
the driver nor a bookie: what a lost zone does is told elsewhere.
"""

import base64
import dataclasses
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.client.patience import PATIENT
from tests.cluster import installation
from tests.cluster.installation import ZONES, Clusters
from tests.cluster.kubelet.api import Json
from tests.cluster.lab import Lab
from tests.cluster.processes import Process, until
from tests.cluster.spark_jobs import SPACE, USER, SparkJobs, granted
from tests.support import java_runtime
from tests.support.checkout_root import ROOT
from zonekeeper.log.api import blocking as blocking_logs
from zonekeeper.log.api.blocking import BlockingLogs
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.wire.grpc.tls import TlsFiles

pytestmark = [pytest.mark.cluster, pytest.mark.needs_lab]

TLS: Final = "/etc/zonekeeper/tls"
STREAM: Final = ROOT / "examples" / "spark" / "copy_a_log.py"
JOB: Final = ROOT / "pipeline" / "zonekeeper" / "pipeline" / "__main__.py"
#: Of a portion, and of a batch of the log in it.
MESSAGES: Final = 600
TOGETHER: Final = 25
#: The node that is lost, and the other one of its zone.
LOST, SPARE = "a-1", "a-0"
DRIVERS: Final = {"spark.kubernetes.driver.node.selector.kubernetes.io/hostname": "c-0"}
#: As before Kubernetes 1.35: all executors in one zone, of which they are told.
REPORT: Final = {
    **DRIVERS,
    "spark.executor.instances": "1",
    "spark.kubernetes.executor.node.selector.topology.kubernetes.io/zone": "b",
    "spark.executorEnv.ZONEKEEPER_ZONE": "b",
}
CLAIM: Final = "spark.kubernetes.driver.volumes.persistentVolumeClaim.checkpoints"
STREAMED: Final = {
    **DRIVERS,
    f"{CLAIM}.options.claimName": "copy",
    f"{CLAIM}.mount.path": "/checkpoints",
    "spark.executor.instances": "3",
    # Connections to a machine without power do not end by themselves.
    "spark.executor.heartbeatInterval": "2s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "15000",
    "spark.network.timeoutInterval": "5s",
    # The first micro-batch is for all three.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "600s",
}


@pytest.fixture(scope="module")
def clusters(operator: Lab, metadata_servers: str) -> Iterator[Clusters]:
    """A cluster with TLS, with no bookie on the node that will be lost."""
    java_runtime.require("Spark")
    operator.apply([installation.namespace(SPACE)])
    made = Clusters(operator, SPACE, f"zk://{metadata_servers}/{SPACE}/ledgers")
    operator.kubectl("cordon", LOST)
    made.apply(
        "log",
        bookiesPerZone=1,
        tls={"mode": "Operator", "clients": ["spark"]},
        # A machine that is busy answers late: no reader is to look in another zone for that.
        policy={"reads": {"hedgeAfter": "60s"}},
    )
    made.wait_for_ready("log")
    operator.kubectl("uncordon", LOST)
    operator.kubectl("cordon", SPARE)
    try:
        yield made
    finally:
        operator.kubectl("uncordon", SPARE)
        operator.stop_node(LOST)  # if the test did not come so far
        operator.start_node(LOST)
        operator.wait_for_nodes([LOST])
        made.delete("log")


@pytest.fixture(scope="module")
def jobs(clusters: Clusters) -> SparkJobs:
    made = SparkJobs(clusters.lab)
    made.install()
    return made


@pytest.fixture(scope="module")
def logs(clusters: Clusters, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingLogs]:
    files = secret_files(clusters.lab, "log-client-spark-tls", tmp_path_factory.mktemp("tls"))
    with blocking_logs.connect(clusters.uri, dataclasses.replace(PATIENT, tls=files)) as found:
        yield found


def secret_files(lab: Lab, name: str, folder: Path) -> TlsFiles:
    for key, text in lab.get("secret", name, namespace=SPACE)["data"].items():
        (folder / key).write_bytes(base64.b64decode(text))
    authority, certificate, key = (folder / one for one in ("ca.crt", "tls.crt", "tls.key"))
    return TlsFiles(authority=authority, certificate=certificate, key=key)


def payloads(portion: int) -> list[bytes]:
    first = portion * MESSAGES
    return [b"%d/" % number + b"x" * 1_000 for number in range(first, first + MESSAGES)]


def append(logs: BlockingLogs, portion: int) -> None:
    every = payloads(portion)
    with logs.writer("orders") as writer:
        for first in range(0, MESSAGES, TOGETHER):
            many = [LogMessage(payload=one) for one in every[first : first + TOGETHER]]
            writer.flushed(writer.append_many(many) - 1)


def copied(logs: BlockingLogs) -> Counter[bytes]:
    """Count the copies of each message; their sequences are dense."""
    found = list(logs.reader("copied").read_messages())
    assert [one.sequence for one in found] == list(range(len(found)))
    return Counter(bytes(one.message.payload) for one in found)


def wait_for(jobs: SparkJobs, logs: BlockingLogs, stream: Process, portions: int) -> None:
    """Wait until a number of portions is copied: each message once."""
    wanted = Counter(one for portion in range(portions) for one in payloads(portion))
    try:
        stream.until(
            lambda: copied(logs).total() >= wanted.total(), what=f"{portions} portions copied"
        )
    except Exception as error:
        raise AssertionError(f"{error}\n{jobs.ends('copy')}") from error
    assert copied(logs) == wanted


def claim(name: str) -> Json:
    storage = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
    about = {"name": name, "namespace": SPACE}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": about, "spec": storage}


def pods_beside(lab: Lab, node: str) -> list[str]:
    """Name the pods of Spark that are not on a node."""
    found = lab.list("pods", namespace=SPACE, selector="spark-role")
    return [one["metadata"]["name"] for one in found if one["spec"].get("nodeName", "") != node]


def exit_code(driver: Json) -> int:
    (status,) = driver["status"]["containerStatuses"]
    return int(status["state"]["terminated"]["exitCode"])


@pytest.mark.by_turns
def test_a_job_and_a_stream_run_in_pods_and_a_lost_node_loses_nothing(
    clusters: Clusters, jobs: SparkJobs, logs: BlockingLogs
) -> None:
    lab, uri = clusters.lab, clusters.uri
    for name in ("orders", "copied"):
        logs.create(name)
    append(logs, 0)
    lab.apply([claim("copy")])
    how = ["--metadata", uri, "--log", "orders", "--to", "copied", "--tls", TLS]
    stream = jobs.submit(
        "copy", STREAM, [*how, "--checkpoint", "/checkpoints/orders", "--partitions", "6"], STREAMED
    )
    files = [("authority", "ca.crt"), ("certificate", "tls.crt"), ("key", "tls.key")]
    tls = [word for name, file in files for word in (f"--tls-{name}", f"{TLS}/{file}")]
    report = jobs.submit("report", JOB, ["zone-report", "--metadata", uri, *tls], REPORT)

    wait_for(jobs, logs, stream, 1)
    executors = {one["spec"]["nodeName"]: one for one in jobs.executors("copy")}
    assert executors.keys() == {LOST, "b-0", "c-0"}
    read = [jobs.bytes_read(one) for one in executors.values()]
    assert min(local for local, _ in read) > 0
    assert sum(local for local, _ in read) >= MESSAGES * 1_000
    assert [beyond for _, beyond in read] == [0] * len(ZONES)

    append(logs, 1)
    os.kill(jobs.process_of(executors["b-0"]), signal.SIGKILL)
    wait_for(jobs, logs, stream, 2)
    append(logs, 2)
    lab.stop_node(LOST)
    append(logs, 3)
    wait_for(jobs, logs, stream, 4)

    until(lambda: not report.running, what="the job has ended")
    # The loss of a zone of one bookie leaves no room for its copies: the job has found that.
    assert exit_code(jobs.driver("report")) == 1, jobs.ends("report")
    assert report.exit_code == 0, "spark-submit says nothing of it"
    assert "losses that would make entries unreadable" in jobs.log_of(jobs.driver("report"))
    assert jobs.zones_told("report") == {"b"}
    jobs.kubectl_of_user("logs", "report-driver")
    jobs.kubectl_of_user("delete", "pod", "copy-driver", "report-driver")
    until(lambda: not stream.running, what="spark-submit hears of the end of the stream")
    # Those of the lost node stay until it is back, as everywhere.
    until(lambda: not pods_beside(lab, LOST), what="no pod of Spark is left")
    assert jobs.asked("spark-driver") == granted("spark-driver")
    assert jobs.asked(USER) == granted("spark-submit")
