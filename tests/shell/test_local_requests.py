"""What cannot be meant is refused with exit code 2 and a reason, and nothing is done."""

import fcntl
import os
from pathlib import Path

import pytest

from tests.shell.local_world import LocalWorld
from zonekeeper.placement.ids import BookieId
from zonekeeper.shell import local_state
from zonekeeper.shell.local_processes import Mark
from zonekeeper.shell.local_shape import Shape
from zonekeeper.shell.local_state import State

MARK = Mark(pid=1, started_ticks=2, boot="3")


@pytest.fixture
def world(tmp_path: Path) -> LocalWorld:
    """A folder whose cluster does not run."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    local_state.write(folder, State(shape=Shape()))
    return LocalWorld(folder)


@pytest.mark.parametrize(
    "words",
    [("status",), ("down",), ("kill-bookie", "bk-a-0"), ("kill-zone", "a"), ("restore-zone", "a")],
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
        (("kill-zone", "a"), "no bookie of zone a runs; nothing was killed"),
        (("restore-zone", "d"), "there is no zone d; there are a, b, c"),
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
    state = State(shape=Shape(zones=2)).started(BookieId("bk-a-0"), MARK)
    local_state.write(tmp_path, state)

    assert local_state.read(tmp_path) == state
    assert local_state.read(tmp_path / "none") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"format": 2}',
        '{"format": 1, "zones": 3, "bookiesPerZone": 3, "upgradeDomains": 0, "processes": {}}',
        '{"format": 1, "zones": true, "bookiesPerZone": 3, "upgradeDomains": 3, "processes": {}}',
        '{"format": 1, "zones": 3, "bookiesPerZone": 3, "upgradeDomains": 3, "processes": []}',
        '{"format": 1, "zones": 3, "bookiesPerZone": 3, "upgradeDomains": 3, "processes": '
        '{"bk-a-0": {"pid": -1, "startedTicks": 1, "boot": ""}}}',
    ],
)
def test_a_damaged_state_is_told_and_nothing_is_guessed(world: LocalWorld, text: str) -> None:
    (world.folder / local_state.NAME).write_text(text)
    result = world.call("down", "--purge")

    assert result.exit_code == 1
    assert "is damaged" in result.stderr
    assert "it is not known what runs here" in result.stderr
    assert (world.folder / local_state.NAME).exists()
