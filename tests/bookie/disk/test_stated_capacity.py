"""A folder with a stated capacity: its own files count, and the disk still ends it."""

from pathlib import Path

import pytest

from zonekeeper.bookie.disk import files
from zonekeeper.bookie.disk.files import DISK_LEFT_BYTES, RealFileSystem, Space
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.life import data_folder, space
from zonekeeper.bookie.life.space import DeviceVerdict, Marks
from zonekeeper.bookie.segments.directories import Directories

GIB = 1 << 30
PLENTY = 100 * GIB


@pytest.mark.parametrize(
    ("taken", "disk_free", "free"),
    [
        (0, PLENTY, 10 * GIB),
        (4 * GIB, PLENTY, 6 * GIB),
        (11 * GIB, PLENTY, 0),
        (4 * GIB, 2 * GIB + DISK_LEFT_BYTES, 2 * GIB),
        (0, DISK_LEFT_BYTES, 0),
        (0, 0, 0),
    ],
)
def test_s177_what_is_free_is_what_capacity_and_disk_both_have(
    taken: int, disk_free: int, free: int
) -> None:
    found = files.stated(10 * GIB, taken, disk_free)

    assert found == Space(total_bytes=10 * GIB, free_bytes=free, device=0)


def test_s177_marks_go_by_the_capacity_and_not_by_the_disk() -> None:
    full_disk = Space(total_bytes=100 * GIB, free_bytes=3 * GIB)
    told = files.stated(2 * GIB, GIB, 3 * GIB)

    assert space.judge(DeviceVerdict(), {"d": full_disk}, (), Marks()).refusing
    assert not space.judge(DeviceVerdict(), {"d": told}, (), Marks()).refusing
    over = files.stated(2 * GIB, 2 * GIB - 1, PLENTY)
    assert space.judge(DeviceVerdict(), {"d": over}, (), Marks()).refusing


def test_the_folder_s_own_files_count_at_any_depth_and_no_others(tmp_path: Path) -> None:
    (mine := tmp_path / "mine").mkdir()
    (mine / "index").mkdir()
    for path in (mine / "segment", mine / "index" / "rows", tmp_path / "of another"):
        path.write_bytes(b"x" * (1 << 20))
    (mine / "link").symlink_to(tmp_path / "of another")
    told, whole = RealFileSystem(mine, capacity_bytes=8 << 20), RealFileSystem(mine)
    try:
        found = told.space()
        assert found.total_bytes == 8 << 20
        assert 6 << 20 >= found.free_bytes > 5 << 20
        assert whole.space().total_bytes > found.total_bytes
        assert whole.space().device != 0
    finally:
        told.close()
        whole.close()


def test_a_bookie_s_folders_each_have_the_stated_capacity(tmp_path: Path) -> None:
    paths = (tmp_path / "data", tmp_path / "journal", tmp_path / "ledgers")
    data, journal, ledgers = paths

    with data_folder.all_held(data, journal, (ledgers,), capacity_bytes=GIB) as held:
        assert [held.folders[name].space().total_bytes for name in held.folders] == [GIB] * 3
    with data_folder.all_held(data, journal, (ledgers,)) as held:
        assert {held.folders[name].space().device for name in held.folders} != {0}


def test_the_room_of_one_device_names_it_and_that_of_several_does_not() -> None:
    one, other = MemoryFileSystem(device=5), MemoryFileSystem(device=6)

    assert Directories([one, one]).space().device == 5
    assert Directories([one, other]).space().device == 0
