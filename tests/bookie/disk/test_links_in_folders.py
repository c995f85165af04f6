"""A link in a folder of a bookie leads nowhere: no file beyond the folder is read or changed."""

from pathlib import Path

import pytest

from zonekeeper.bookie.disk.files import RealFileSystem
from zonekeeper.bookie.life import data_folder, identity

VALUABLE = b"not a bookie's"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    file = tmp_path / "outside"
    file.write_bytes(VALUABLE)
    return file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir()
    return made


@pytest.mark.parametrize("name", [identity.VERSION_NAME, identity.LOCK_NAME, "0.seg", "x"])
def test_a_link_is_not_opened_whatever_its_name(name: str, folder: Path, outside: Path) -> None:
    (folder / name).symlink_to(outside)
    files = RealFileSystem(folder)
    try:
        assert files.names() == []
        with pytest.raises(OSError, match=f"{name} is a symbolic link"):
            files.open(name)
        with pytest.raises(FileExistsError):
            files.create(name)
        with pytest.raises(FileExistsError):
            files.create_direct(name)
    finally:
        files.close()
    assert outside.read_bytes() == VALUABLE


def test_a_link_to_nothing_makes_nothing(folder: Path, tmp_path: Path) -> None:
    (folder / "x").symlink_to(tmp_path / "new")
    files = RealFileSystem(folder)
    try:
        with pytest.raises(FileExistsError):
            files.create("x")
        with pytest.raises(OSError, match="symbolic link"):
            files.open("x")
    finally:
        files.close()
    assert not (tmp_path / "new").exists()


def test_what_takes_the_place_of_a_link_or_removes_it_leaves_its_target(
    folder: Path, outside: Path
) -> None:
    for name in ("replaced", "removed"):
        (folder / name).symlink_to(outside)
    files = RealFileSystem(folder)
    try:
        files.create("new").close()
        files.rename("new", "replaced")
        files.remove("removed")
        assert files.names() == ["replaced"]
    finally:
        files.close()
    assert not (folder / "replaced").is_symlink()
    assert outside.read_bytes() == VALUABLE


def test_the_lock_of_a_folder_is_no_link(folder: Path, outside: Path) -> None:
    (folder / identity.LOCK_NAME).symlink_to(outside)
    with pytest.raises(OSError, match="cannot be written"), data_folder.held(folder):
        pytest.fail("the folder was taken")
    assert outside.read_bytes() == VALUABLE
    (folder / identity.LOCK_NAME).unlink()
    with data_folder.held(folder):
        pass


@pytest.mark.parametrize("name", ["../outside", "a/b", "/etc/passwd", "..", ".", "", "a\x00b"])
def test_no_name_leads_out_of_a_folder(name: str, folder: Path, outside: Path) -> None:
    files = RealFileSystem(folder)
    try:
        for use in (files.open, files.create, files.create_direct, files.remove):
            with pytest.raises((ValueError, AssertionError)):
                use(name)
    finally:
        files.close()
    assert outside.read_bytes() == VALUABLE
