"""Spark finds the source by the name of its module, also where the extra is missing."""

import importlib
import subprocess
import sys

import pytest

import pyspark_zonekeeper
from zonekeeper.pipeline.source.data_source import LedgerSource

WITHOUT = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "grpc":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hide())
import pyspark_zonekeeper
from pyspark.sql.datasource import DataSource
assert issubclass(pyspark_zonekeeper.DefaultSource, DataSource)
assert pyspark_zonekeeper.DefaultSource.name() == "zonekeeper"
try:
    pyspark_zonekeeper.DefaultSource({})
except ImportError as error:
    print(error)
"""


def test_the_module_gives_the_source() -> None:
    assert importlib.reload(pyspark_zonekeeper).DefaultSource is LedgerSource
    assert pyspark_zonekeeper.DefaultSource.name() == "zonekeeper"


@pytest.mark.processes
def test_without_the_extra_only_the_one_who_asks_is_told_what_to_install() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT], check=True, capture_output=True, text=True
    )

    (said,) = ran.stdout.splitlines()
    assert said.startswith("this Python has zonekeeper, and not grpc, which its source for Spark")
    assert "pip install 'zonekeeper[pipeline]' on the driver and on every executor" in said
