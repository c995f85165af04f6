"""One Spark session and one cluster for all tests that ask for them: both take seconds to start."""

import asyncio
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline import local
from tests.support import java_runtime
from tests.support.bookie_processes import make_cluster
from zonekeeper.client.api import blocking
from zonekeeper.log.api import blocking as blocking_logs
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.policy.rules import PlacementRules, Policy


@pytest.fixture
def pipeline_root(tmp_path: Path) -> str:
    """A root with a policy and no bookie; gives the metadata's address."""
    uri = f"sqlite://{tmp_path / 'meta.db'}"
    zones = (ZoneName("a"), ZoneName("b"), ZoneName("c"))
    asyncio.run(make_cluster(uri, Policy(placement=PlacementRules(zones=zones))))
    return uri


@pytest.fixture(scope="session")
def cluster_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Bookie processes in three zones; gives the metadata's address."""
    with local.cluster(tmp_path_factory.mktemp("cluster") / "local") as address:
        yield address


@pytest.fixture(scope="session")
def writing(cluster_address: str) -> Iterator[blocking.Client]:
    with blocking.connect(cluster_address) as client:
        yield client


@pytest.fixture(scope="session")
def logs(cluster_address: str) -> Iterator[blocking_logs.BlockingLogs]:
    with blocking_logs.connect(cluster_address) as client:
        yield client


@pytest.fixture(scope="session")
def event_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def event_log(event_folder: Path) -> Callable[[], str]:
    """Give the way to all that Spark has put into its event log until now."""

    def read() -> str:
        files = [one for one in sorted(event_folder.rglob("*")) if one.is_file()]
        return "".join(one.read_text("utf-8") for one in files)

    return read


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, event_folder: Path) -> Iterator[SparkSession]:
    """A session of two workers. It finds the data source by itself."""
    java_runtime.require("Spark")
    folder = tmp_path_factory.mktemp("spark")
    properties = folder / "log4j2.properties"
    properties.write_text("rootLogger.level = off\n")
    with pytest.MonkeyPatch.context() as patch:
        # Else workers run whatever python3 is first on the PATH.
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        logging.getLogger("py4j").setLevel(logging.ERROR)
        session = (
            SparkSession.builder.master("local[2,3]")
            .appName("zonekeeper tests")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.eventLog.enabled", "true")
            .config("spark.eventLog.compress", "false")
            .config("spark.eventLog.dir", event_folder.as_uri())
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .config("spark.local.dir", str(folder))
            .config("spark.driver.memory", "1g")
            .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={properties}")
            .getOrCreate()
        )
        try:
            yield session
        finally:
            session.stop()
