"""Where ZooKeeper cannot run, tests that need it say so; where it must run, they fail."""

from pathlib import Path

import pytest

from tests.support import java_runtime, zookeeper


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)


@pytest.mark.usefixtures("no_java")
def test_a_machine_without_java_skips_and_says_what_is_missing() -> None:
    with pytest.raises(pytest.skip.Exception, match="Java and pyspark's ZooKeeper jars not found"):
        zookeeper.require()


@pytest.mark.usefixtures("no_java")
def test_in_ci_a_machine_without_java_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="Java"):
        zookeeper.require()


def test_java_home_comes_before_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for folder in ("home/bin", "path"):
        (tmp_path / folder).mkdir(parents=True)
        java = tmp_path / folder / "java"
        java.touch()
        java.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java_runtime.find() == tmp_path / "home" / "bin" / "java"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    assert java_runtime.find() == tmp_path / "path" / "java"
