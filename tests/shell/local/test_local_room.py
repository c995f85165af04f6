"""The capacity of the bookies of a local cluster: together never more than the disk has left."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from zonekeeper.metadata.commands import exits
from zonekeeper.shell.commands.local import local
from zonekeeper.shell.local import local_room
from zonekeeper.shell.local.local_room import NoRoomError
from zonekeeper.wire.running.bookie_config import CAPACITY_BYTES_MIN

GIB = 1 << 30


@pytest.mark.parametrize(
    ("free", "held", "bookies", "each"),
    [
        (1000 * GIB, 0, 9, 10 * GIB),
        (10 * GIB, 0, 8, GIB),
        (2 * GIB, 8 * GIB, 8, GIB),
        (GIB, 0, 9, None),
        (0, GIB, 9, CAPACITY_BYTES_MIN),
    ],
)
def test_s177_bookies_share_what_is_left(free: int, held: int, bookies: int, each: int) -> None:
    found = local_room.capacity(free, held, bookies)

    assert found == each
    if not held:
        assert (found or 0) * bookies <= free


def test_a_bookie_takes_every_capacity_that_it_is_told() -> None:
    assert local_room.CAPACITY_BYTES_MIN >= CAPACITY_BYTES_MIN


def test_too_little_room_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_room, "CAPACITY_BYTES_MIN", 1 << 60)

    with pytest.raises(NoRoomError, match="make room, give a --folder on another disk"):
        local_room.capacity_in(tmp_path / "not" / "there", 6)


def test_s177_on_a_full_disk_up_is_one_line_and_leaves_no_cluster_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster that is left behind would refuse the fewer bookies that the message advises."""
    monkeypatch.setattr(local_room, "CAPACITY_BYTES_MIN", 1 << 60)
    folder = tmp_path / "cluster"

    found = CliRunner().invoke(local, ["up", "--folder", str(folder)])

    assert (found.exit_code, found.stdout) == (exits.REFUSED, "")
    (line,) = found.stderr.splitlines()
    assert line.startswith(f"Error: the disk of {folder / 'bookies'} has ")
    assert not folder.exists()


def test_what_bookies_hold_counts_as_theirs(tmp_path: Path) -> None:
    (tmp_path / "bk-a-0").mkdir()
    (tmp_path / "bk-a-0" / "segment").write_bytes(b"x" * (1 << 20))

    assert sum(local_room._taken(tmp_path)) >= 1 << 20
