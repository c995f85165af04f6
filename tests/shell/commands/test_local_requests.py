"""What cannot be meant is refused with exit code 2 and a reason, and nothing is done."""

import fcntl
import json
import os
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from tests.shell.local_world import LocalWorld
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.shell.local import local_state
from zonekeeper.shell.local.local_processes import ProcessMark
from zonekeeper.shell.local.local_shape import Shape, Timers
from zonekeeper.shell.local.local_state import LocalState

MARK = ProcessMark(pid=1, started_ticks=2, boot="3")


@pytest.fixture
def world(tmp_path: Path) -> LocalWorld:
    """A folder whose cluster does not run."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    local_state.write(folder, LocalState(shape=Shape()))
    return LocalWorld(folder)


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("down",),
        ("kill-bookie", "bk-a-0"),
        ("kill-autorecovery", "auto-0"),
        ("kill-zone", "a"),
        ("restore-zone", "a"),
        ("partition-zone", "a"),
        ("heal-zone", "a"),
    ],
    ids=lambda words: words[0],
)
def test_where_there_is_no_cluster_it_says_how_to_get_one(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    result = LocalWorld(tmp_path / "none").call(*words)

    assert result.exit_code == 2
    assert "there is no local cluster in" in result.stderr
    assert "zonekeeper local up" in result.stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("kill-bookie", "bk-d-0"), "there is no bookie bk-d-0; there are bk-a-0, bk-a-1"),
        (("kill-bookie", "bk-a-0"), "bk-a-0 does not run; nothing was killed"),
        (("kill-zone", "d"), "there is no zone d; there are a, b, c"),
        (("kill-bookie", "auto-0"), "there is no bookie auto-0; there are bk-a-0, bk-a-1"),
        (("kill-autorecovery", "auto-2"), "no autorecovery process auto-2; there are auto-0, auto"),
        (("kill-autorecovery", "auto-0"), "auto-0 does not run; nothing was killed"),
        (("kill-zone", "a"), "nothing of zone a runs; nothing was killed"),
        (("restore-zone", "d"), "there is no zone d; there are a, b, c"),
        (("partition-zone", "d"), "there is no zone d; there are a, b, c"),
        (("partition-zone", "a"), "nothing of zone a runs that is not cut off; nothing was done"),
        (("heal-zone", "d"), "there is no zone d; there are a, b, c"),
        (("heal-zone", "a"), "nothing of zone a is cut off; nothing was done"),
        (("up", "--zookeeper"), "--timers short --no-zookeeper: leave these options out"),
        (("up", "--autorecovery", "1"), "has --zones 3 --bookies-per-zone 3 --upgrade-domains 3"),
        (("up", "--timers", "slow"), "'slow' is not one of 'short', 'production'"),
        (("up", "--zones", "4"), "has --zones 3 --bookies-per-zone 3 --upgrade-domains 3"),
        (("up", "--zones", "0"), "0 is not in the range"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_there_is_not_cannot_be_done(
    world: LocalWorld, words: tuple[str, ...], reason: str
) -> None:
    before = sorted(world.folder.iterdir())
    result = world.call(*words)

    assert result.exit_code == 2
    assert reason in result.stderr
    assert sorted(world.folder.iterdir()) == before


def test_a_shape_without_a_legal_ledger_is_refused_in_placement_s_words(tmp_path: Path) -> None:
    world = LocalWorld(tmp_path / "none")
    result = world.call("up", "--zones", "1", "--bookies-per-zone", "2")

    assert result.exit_code == 2
    assert "there are too few bookies: 3 wanted for 3/3/2" in result.stderr
    assert not world.folder.exists()


@pytest.mark.parametrize(
    ("java", "jars", "reason"),
    [
        (False, True, "there is no Java here: install a JRE (17 or newer), or set JAVA_HOME"),
        (True, False, "its jars come with pyspark, and that is not installed here: pip install"),
    ],
)
def test_zookeeper_without_what_it_needs_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java: bool, jars: bool, reason: str
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch(mode=0o755)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / ("bin" if java else "nothing")))
    spark = ModuleSpec("pyspark", None, is_package=True)
    spark.submodule_search_locations = [str(tmp_path / "pyspark")]
    monkeypatch.setattr("importlib.util.find_spec", lambda _: spark if jars else None)
    (tmp_path / "pyspark" / "jars").mkdir(parents=True)
    for name in (
        "zookeeper-3.9",
        "zookeeper-jute-3",
        "slf4j-api-2",
        "metrics-core-4",
        "snappy-java-1",
    ):
        (tmp_path / "pyspark" / "jars" / f"{name}.jar").touch()

    world = LocalWorld(tmp_path / "cluster")
    result = world.call("up", "--zookeeper")

    assert result.exit_code == 2
    assert f"--zookeeper: {reason}" in result.stderr
    assert not world.folder.exists()


def test_a_folder_with_other_things_in_it_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("words")
    result = LocalWorld(tmp_path).call("up")

    assert result.exit_code == 2
    assert "holds other things; give an empty or a new folder" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("words")
    result = LocalWorld(tmp_path / "file").call("up")

    assert result.exit_code == 2
    assert "File exists" in result.stderr


@pytest.mark.parametrize("name", ["a,b", "a\tb"])
def test_a_folder_that_no_cookie_can_name_is_refused(tmp_path: Path, name: str) -> None:
    result = LocalWorld(tmp_path / name).call("up")

    assert result.exit_code == 2
    assert "must have no comma and no control characters" in result.stderr


def test_one_command_at_a_time_works_on_a_folder(world: LocalWorld) -> None:
    held = os.open(world.folder, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        result = world.call("down")
    finally:
        os.close(held)

    assert result.exit_code == 1
    assert "another command is at work in" in result.stderr
    assert world.call("down").exit_code == 0


def test_the_demonstration_takes_no_cluster_that_is_there_already(world: LocalWorld) -> None:
    before = sorted(world.folder.iterdir())
    result = world.call("demo")

    assert result.exit_code == 2
    assert "there is a cluster already, and the demonstration destroys" in result.stderr
    assert sorted(world.folder.iterdir()) == before


def test_a_purge_removes_what_is_the_cluster_s_and_nothing_else(world: LocalWorld) -> None:
    (world.folder / "thesis.txt").write_text("words")
    (world.folder / "bookies").mkdir()

    assert world.call("down", "--purge").exit_code == 0
    assert [path.name for path in world.folder.iterdir()] == ["thesis.txt"]


def test_a_store_that_is_gone_is_unknown_and_not_absent(world: LocalWorld) -> None:
    found = world.data("status")

    assert found["unknown"] == f"{world.folder / 'meta.db'} is not there"
    assert set(world.column("registration").values()) == {"unknown"}
    assert not (world.folder / "meta.db").exists()


def test_the_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    shape = Shape(zones=2, autorecovery=0, zookeeper=True, timers=Timers.PRODUCTION)
    state = LocalState(shape=shape, zookeeper_port=2181).started(BookieId("auto-0"), MARK)
    state = state.looked_at(BookieId("auto-0"), "127.0.0.1:8080")
    local_state.write(tmp_path, state)

    assert local_state.read(tmp_path) == state
    assert state.stopped([BookieId("auto-0")]) == LocalState(shape=shape, zookeeper_port=2181)
    assert local_state.read(tmp_path / "none") is None


GOOD: dict[str, object] = {
    "format": 2,
    "zones": 3,
    "bookiesPerZone": 3,
    "upgradeDomains": 3,
    "autorecovery": 2,
    "timers": "short",
    "zooKeeperPort": None,
    "processes": {},
}


WRONG: tuple[dict[str, object], ...] = (
    {"format": 1},
    {"upgradeDomains": 0},
    {"zones": True},
    {"autorecovery": -1},
    {"timers": "slow"},
    {"zooKeeperPort": "2181"},
    {"processes": []},
    {"processes": {"bk-a-0": {"pid": 1}}},
    {"processes": {"bk-a-0": {"pid": -1, "startedTicks": 1, "boot": "", "http": None}}},
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        *(json.dumps(GOOD | change) for change in WRONG),
    ],
)
def test_a_damaged_state_is_told_and_nothing_is_guessed(world: LocalWorld, text: str) -> None:
    (world.folder / local_state.NAME).write_text(text)
    result = world.call("down", "--purge")

    assert result.exit_code == 1
    assert "is damaged" in result.stderr
    assert "it is not known what runs here" in result.stderr
    assert (world.folder / local_state.NAME).exists()
