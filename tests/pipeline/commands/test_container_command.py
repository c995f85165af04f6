"""What a container of Spark runs, from what Spark gives it; what is missing is one line."""

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from zonekeeper.pipeline.base.java_runtime import NoJava
from zonekeeper.pipeline.commands import container_command
from zonekeeper.pipeline.commands.container_command import BadContainerError

HOME = "/opt/spark"
EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.7:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.9",
    "SPARK_EXECUTOR_POD_NAME": "copy-exec-3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}


@pytest.fixture
def java(tmp_path: Path) -> dict[str, str]:
    """Give an environment with a Java."""
    program = tmp_path / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    return {"JAVA_HOME": str(tmp_path / "java")}


def test_a_driver_submits_in_client_mode_at_the_address_of_its_pod(java: dict[str, str]) -> None:
    given = ["driver", "--properties-file", "/opt/spark/conf/spark.properties", "local:///job.py"]
    made = container_command.command(given, {**java, "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.7"}, HOME)
    assert made.words == (
        "/opt/spark/bin/spark-submit",
        *("--conf", "spark.driver.bindAddress=10.0.0.7"),
        *("--conf", "spark.executorEnv.SPARK_DRIVER_POD_IP=10.0.0.7"),
        *("--deploy-mode", "client"),
        *given[1:],
    )
    assert made.added == {"SPARK_HOME": HOME}


def test_an_executor_is_java_with_what_spark_says_of_it(java: dict[str, str]) -> None:
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dn={number}" for number in (10, 9, 0)}
    paths = {"SPARK_CLASSPATH": "/jars/a.jar", "SPARK_CONF_DIR": "/conf"}
    others = {"MY_SPARK_JAVA_OPT_1": "x", "SPARK_JAVA_OPT_": "x", "SPARK_JAVA_OPT_1_A": "x"}
    environment = {**java, **EXECUTOR, **options, **paths, **others}
    made = container_command.command(["executor"], environment, HOME)
    assert made.words == (
        f"{java['JAVA_HOME']}/bin/java",
        *("-Dn=0", "-Dn=9", "-Dn=10", "-Xms512m", "-Xmx512m"),
        *("-cp", "/conf:/jars/a.jar:/opt/spark/jars/*"),
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        *("--driver-url", "spark://CoarseGrainedScheduler@10.0.0.7:7078"),
        *("--executor-id", "3", "--cores", "2", "--app-id", "spark-1"),
        *("--hostname", "10.0.0.9", "--resourceProfileId", "0", "--podName", "copy-exec-3"),
    )
    assert made.added == {"SPARK_HOME": HOME}


def test_a_class_path_has_no_empty_part_which_would_be_the_working_folder() -> None:
    assert container_command.class_path({}, HOME) == "/opt/spark/jars/*"
    every = {
        "SPARK_CONF_DIR": "a",
        "HADOOP_CONF_DIR": "b",
        "SPARK_CLASSPATH": "c",
        "SPARK_DIST_CLASSPATH": "d",
    }
    assert container_command.class_path(every, HOME) == "a:b:c:/opt/spark/jars/*:d"


def test_any_other_words_are_a_command_that_needs_neither_spark_nor_java() -> None:
    words = ["python", "-m", "zonekeeper.pipeline", "--help"]
    made = container_command.command(words, {}, None)
    assert (list(made.words), dict(made.added)) == (words, {})


@pytest.mark.parametrize("lacking", [*EXECUTOR])
def test_what_spark_did_not_give_to_an_executor_is_named(
    java: dict[str, str], lacking: str
) -> None:
    for environment in (
        {name: text for name, text in EXECUTOR.items() if name != lacking},
        {**EXECUTOR, lacking: ""},
    ):
        with pytest.raises(BadContainerError, match=lacking):
            container_command.command(["executor"], {**java, **environment}, HOME)


def test_what_a_driver_lacks_is_named(java: dict[str, str]) -> None:
    with pytest.raises(BadContainerError, match="SPARK_DRIVER_BIND_ADDRESS"):
        container_command.command(["driver", "local:///job.py"], java, HOME)
    with pytest.raises(BadContainerError, match="no arguments"):
        container_command.command([], java, HOME)


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_without_java_or_the_extra_the_container_says_so(
    role: str, java: dict[str, str], tmp_path: Path
) -> None:
    environment = {**EXECUTOR, "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.7", "PATH": str(tmp_path)}
    with pytest.raises(NoJava, match="there is no java on the PATH"):
        container_command.command([role], environment, HOME)
    with pytest.raises(BadContainerError, match=r"pip install 'zonekeeper\[pipeline\]'"):
        container_command.command([role], {**environment, **java}, None)


def ran(words: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "zonekeeper.pipeline.commands.container", *words],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )


def test_the_entry_point_becomes_the_command_and_ends_as_it_does(tmp_path: Path) -> None:
    ended = ran(["/bin/sh", "-c", 'echo "$0 $SAID"; exit 3', "word"], {"SAID": "here"})
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "word here\n", "")

    for words, told in (
        ([], "Error: the container was given no arguments"),
        (["driver", "local:///job.py"], "Error: there is no java on the PATH"),
        (["executor"], "Error: there is no java on the PATH"),
        ([str(tmp_path / "nothing")], "Error: [Errno 2] No such file or directory"),
    ):
        ended = ran(words, {"PATH": str(tmp_path)})
        assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
        (line,) = ended.stderr.splitlines()
        assert line.startswith(told)


def test_the_entry_point_gives_spark_its_folder(tmp_path: Path, java: dict[str, str]) -> None:
    """The one that is named, else that of the package."""
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text('#!/bin/sh\necho "$SPARK_HOME $*"\n')
    submit.chmod(0o755)
    environment = {**java, "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.7", "PATH": "/usr/bin:/bin"}
    ended = ran(["driver", "local:///job.py"], {**environment, "SPARK_HOME": str(tmp_path)})
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split()[0] == str(tmp_path)
    assert ended.stdout.split()[-1] == "local:///job.py"

    (Path(java["JAVA_HOME"]) / "bin" / "java").write_text('#!/bin/sh\necho "$SPARK_HOME $*"\n')
    ended = ran(["executor"], {**java, **EXECUTOR, "PATH": "/usr/bin:/bin"})
    home = str(Path(pyspark.__file__).parent)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split()[0] == home
    assert f"-cp {home}/jars/* " in ended.stdout
