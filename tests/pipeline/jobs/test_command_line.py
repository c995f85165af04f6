"""The command: what is wrong is one line and exit code 2, before Spark is started."""

import asyncio
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError

from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.pipeline.base.java_runtime import NoJava
from zonekeeper.pipeline.jobs import command_line


def ended(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    code = command_line.main(words)
    printed = capsys.readouterr()
    assert printed.out == ""
    return code, printed.err.splitlines()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "the following arguments are required: JOB"),
        (["placemnt-audit"], "invalid choice: 'placemnt-audit'"),
        (["placement-audit"], "--metadata: not given: is required"),
        (["placement-audit", "--metadata", "zk//x"], "--metadata: cannot be used"),
        (["placement-audit", "--metadta", "x"], "unrecognized arguments: --metadta"),
        (["placement-audit", "--at-once", "2"], "unrecognized arguments: --at-once"),
        (
            ["placement-audit", "--metadata", "sqlite:///nowhere/meta.db"],
            "/nowhere/meta.db: there is no such file",
        ),
        (
            ["placement-audit", "--metadata", "zk://h/l", "--output", "rows.xlsx"],
            "--output rows.xlsx: its ending says the format, and must be one of .parquet, .csv",
        ),
        (
            ["placement-audit", "--metadata", "zk://h/l", *(2 * ["--output", "rows.csv"])],
            "--output rows.csv: is given twice",
        ),
        (["placement-audit", "--metadata", "zk://h/l", "--ledgers", "x"], '--ledgers: "x"'),
    ],
)
def test_a_command_that_is_wrong_is_one_line(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines = ended(words, capsys)
    assert code == command_line.NOT_DONE == 2
    (line,) = lines
    assert line.startswith("Error: ")
    assert told in line


@pytest.mark.parametrize("job", ["placement-audit", "replica-audit", "zone-report"])
def test_a_cluster_without_a_policy_is_one_line(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = f"sqlite://{tmp_path / 'meta.db'}"

    async def without_policy() -> None:
        store = await open_store(uri)
        await clusters.initialise(store, "3b0c9a51-0000-4000-8000-000000000001")
        await store.close()

    asyncio.run(without_policy())
    code, (line,) = ended([job, "--metadata", uri], capsys)
    assert code == 2
    assert "has no policy that can be read" in line


def test_without_java_the_command_says_so(
    pipeline_root: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    code, lines = ended(["placement-audit", "--metadata", pipeline_root], capsys)
    assert (code, len(lines)) == (2, 1)
    assert "there is no java on the PATH" in lines[0]


def test_java_is_needed_only_by_a_process_that_starts_it(tmp_path: Path) -> None:
    with pytest.raises(NoJava, match="no bin/java in it"):
        command_line.check_java({"JAVA_HOME": str(tmp_path)})
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    command_line.check_java({"JAVA_HOME": str(tmp_path)})
    command_line.check_java({"PATH": "", "PYSPARK_GATEWAY_PORT": "1"})
    command_line.check_java({"PATH": "", "SPARK_REMOTE": "sc://host"})


def test_a_bug_shows_its_traceback_and_does_not_look_like_a_finding(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(words: object) -> int:
        raise RuntimeError(words)

    monkeypatch.setattr(command_line, "_run", wrong)
    code, lines = ended([], capsys)
    assert code == 2
    assert lines[0].startswith("Traceback")

    def interrupted(words: object) -> int:
        raise KeyboardInterrupt(words)

    monkeypatch.setattr(command_line, "_run", interrupted)
    assert ended([], capsys) == (130, ["interrupted"])


def test_what_java_refuses_or_does_not_live_to_say_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as ``--master "local[0]"``, or a driver that the system has ended."""

    def refused(words: object) -> int:
        raise Py4JNetworkError(f"no answer from Java\n\tat {words}")

    monkeypatch.setattr(command_line, "_run", refused)
    code, lines = ended([], capsys)
    assert (code, lines) == (2, ["Error: Spark could not run the job: no answer from Java"])


def test_of_spark_s_words_the_worker_s_line_is_told() -> None:
    text = "[X] job aborted\n  zonekeeper.pipeline.NotRead: there is no ledger 7\n at org.apache\n"
    assert command_line.of_spark(text) == "there is no ledger 7"
    assert command_line.of_spark("\n[X] no room\nat y").endswith("the job: [X] no room")
    text = "An error occurred while calling o1.x.\n: org.apache.X: 0 threads\n\tat org.apache\n"
    assert command_line.of_spark(text).endswith("the job: org.apache.X: 0 threads")
    assert command_line.of_spark("") == "Spark could not run the job: it does not say why"


def test_without_the_extra_the_command_says_what_to_install() -> None:
    hidden = textwrap.dedent("""
        import runpy, sys
        class Hide:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] == "pyspark":
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        sys.meta_path.insert(0, Hide())
        sys.argv = ["zonekeeper.pipeline", "placement-audit"]
        runpy.run_module("zonekeeper.pipeline", run_name="__main__", alter_sys=True)
    """)
    ended = subprocess.run(
        [sys.executable, "-c", hidden], check=False, capture_output=True, text=True
    )
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("Error: pyspark is not installed in ")
    assert line.endswith("pip install 'zonekeeper[pipeline]'")
