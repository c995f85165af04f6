"""Tools that look: they show what is there, name damage with its byte, and change nothing."""

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bookie.tools.places import BOOKIE, INSTANCE, Place
from zonekeeper.bookie.tools import indexes

LOOKING = (
    ("state",),
    ("list-ledgers",),
    ("read-segment", "arrival-00000001"),
    ("scrub",),
    ("rebuild-index",),
    ("export-hints", "-"),
)


def damage(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def test_ledgers_are_listed_with_their_entries_fence_and_lac(full: Place) -> None:
    found = full.listed("list-ledgers")

    assert [each["ledger"] for each in found] == [1, 2, 3]
    assert {each["entries"] for each in found} == {60}
    assert {(each["firstEntry"], each["lastEntry"], each["runs"]) for each in found} == {(0, 59, 1)}
    assert {each["lac"] for each in found} == {57}
    assert [each["fenced"] for each in found] == [False, True, False]
    assert found[0]["fragments"] == [{"firstEntry": 0, "ensemble": ["bk-a-0"]}]
    assert "fenced, 1 fragments" in full.on_data("list-ledgers").stdout


def test_the_state_shows_marks_segments_backlog_and_who_it_is(full: Place) -> None:
    answer = full.on_data("state", "--metadata", full.metadata, "--output", "json")
    state = json.loads(answer.stdout)

    assert (state["bookie"], state["instance"]) == (BOOKIE, INSTANCE)
    assert (state["location"], state["bootEpoch"], state["readOnly"]) == ("/a/ud-0", 0, False)
    assert (state["ledgers"], state["entries"]) == (3, 180)
    assert [0, 0] < state["mark"] < state["end"]
    assert state["sortedSegments"]
    assert state["sortedBytes"] == sum(path.stat().st_size for path in full.names("sorted"))
    used = [each for each in state["arrivalSegments"] if each["generation"] is not None]
    assert state["backlog"]["segments"] == len(used) > 0
    assert state["space"]["data"]["totalBytes"] >= state["space"]["data"]["freeBytes"] > 0
    text = full.on_data("state").stdout
    assert "ledgers:  3, with 180 entries" in text
    assert "boots:    not asked (--metadata)" in text


def test_the_parts_of_segments_add_up_to_every_entry(full: Place) -> None:
    seen: set[tuple[object, object]] = set()
    for path in (*full.names("sorted"), *full.names("arrival")):
        for part in full.listed("read-segment", path.name, "--entries"):
            assert part["part"] != "damage"
            if part["part"] == "frame":
                assert part["digestsChecked"]
                entries = part["entries"]
                assert isinstance(entries, list)
                seen |= {(part["ledger"], each["entry"]) for each in entries}

    assert seen == {(ledger, entry) for ledger in (1, 2, 3) for entry in range(60)}
    text = full.on_data("read-segment", full.names("sorted")[0].name, "--entries").stdout
    assert "table:" in text
    assert "entry 0: packet of " in text
    assert "digests checked" in text


def test_nothing_is_wrong_with_what_was_written_in_order(full: Place) -> None:
    answer = full.on_data("scrub")

    assert (answer.exit_code, answer.stdout.splitlines()[-1]) == (0, "no damage")
    assert "entries (0 without a digest that can be compared)" in answer.stdout


def test_a_damaged_frame_is_named_with_its_byte_and_not_repaired(full: Place) -> None:
    path = full.names("sorted")[0]
    part = [each for each in full.listed("read-segment", path.name) if each["part"] == "frame"][1]
    offset, size = part["offset"], part["size"]
    assert isinstance(offset, int)
    assert isinstance(size, int)
    damage(path, offset + size - 1)
    before = path.read_bytes()

    scrubbed = full.on_data("scrub", "--output", "json")
    read = full.on_data("read-segment", path.name)

    assert (scrubbed.exit_code, read.exit_code) == (1, 1)
    (found,) = json.loads(scrubbed.stdout)["damage"]
    assert f"{path.name}, byte {offset}:" in found
    assert f"it should hold ledger {part['ledger']} entries {part['firstEntry']} to" in found
    assert f"{offset:>10} DAMAGED" in read.stdout
    assert path.read_bytes() == before


def test_a_damaged_table_leaves_the_frames_to_be_read(full: Place) -> None:
    path = full.names("sorted")[0]
    frames = [each for each in full.listed("read-segment", path.name) if each["part"] == "frame"]
    damage(path, path.stat().st_size - 60)

    lines = full.on_data("read-segment", path.name, "--output", "json").stdout.splitlines()
    parts = [json.loads(line) for line in lines]
    scrubbed = full.on_data("scrub")

    assert [each for each in parts if each["part"] == "frame"] == sorted(
        frames, key=lambda each: int(str(each["offset"]))
    )
    assert [each["part"] for each in parts].count("damage") == 1
    assert scrubbed.exit_code == 1
    assert f"{path.name}, byte" in scrubbed.stdout
    assert "the table: " in scrubbed.stdout


def test_damage_inside_the_log_is_told_from_its_end(full: Place) -> None:
    state = json.loads(full.on_data("state", "--output", "json").stdout)
    name = next(each["name"] for each in state["arrivalSegments"] if each["generation"] is not None)
    batches = [each for each in full.listed("read-segment", name) if each["part"] == "batch"]
    first, second = batches[0]["offset"], batches[1]["offset"]
    assert isinstance(second, int)
    damage(full.data / name, second + 40)

    answer = full.on_data("read-segment", name)

    assert (answer.exit_code, first) == (1, 0)
    assert f"{second:>10} DAMAGED" in answer.stdout
    assert "the next good batch is at byte" in answer.stdout
    for refusing in ("list-ledgers", "state"):
        refused = full.on_data(refusing)
        assert refused.exit_code == 1
        assert "that were acknowledged are lost on this disk" in refused.stderr
    scrubbed = full.on_data("scrub")
    assert scrubbed.exit_code == 1
    assert f"at byte {second} of {name!r} is damaged" in scrubbed.stdout


def test_what_is_behind_the_end_of_the_log_is_no_damage(full: Place) -> None:
    state = json.loads(full.on_data("state", "--output", "json").stdout)
    newest = max(
        (each for each in state["arrivalSegments"] if each["generation"] is not None),
        key=lambda each: int(each["generation"]),
    )
    path = full.data / newest["name"]
    with path.open("r+b") as file:
        file.seek(newest["usedBytes"])
        file.write(b"torn")

    parts = full.listed("read-segment", path.name)

    assert parts[-1]["part"] == "rest"
    assert parts[-1]["offset"] == newest["usedBytes"]
    assert full.on_data("scrub").exit_code == 0


def test_a_lost_segment_is_damage(full: Place) -> None:
    path = full.names("sorted")[0]
    path.unlink()

    answer = full.on_data("scrub")

    assert answer.exit_code == 1
    assert f"{path.name}: it is missing, and the checkpoint names it" in answer.stdout


def test_the_index_that_is_built_again_is_equal_to_the_live_one(full: Place) -> None:
    answer = json.loads(full.on_data("rebuild-index", "--output", "json").stdout)

    assert answer["equal"]
    assert answer["extents"] == answer["liveExtents"] > 0
    assert len(full.listed("list-ledgers")) == 3


def test_a_lost_index_is_built_again(full: Place) -> None:
    before = full.on_data("list-ledgers").stdout
    shutil.rmtree(full.data / "index")

    answer = full.on_data("rebuild-index")

    assert answer.exit_code == 0
    assert "not compared: there is no live index; the new index is in place" in answer.stdout
    assert full.on_data("list-ledgers").stdout == before
    assert full.on_data("scrub").exit_code == 0


def test_an_index_that_is_behind_is_no_damage_and_proves_nothing(full: Place) -> None:
    number = int(full.names("sorted")[0].name.removeprefix("sorted-"))
    with indexes.live(full.data) as index:
        index.drop(number, [])

    rebuilt = full.on_data("rebuild-index", "--dry-run")

    assert rebuilt.exit_code == 0
    assert "not compared: the live index is behind the checkpoint" in rebuilt.stdout
    assert full.on_data("scrub").exit_code == 0


def test_an_index_that_says_something_else_is_different(full: Place) -> None:
    with indexes.live(full.data) as index:
        row = next(index.rows())
        number = max(index.segments())
        index.drop(number, [row])
        index.add(number, [])

    rebuilt = full.on_data("rebuild-index", "--dry-run")

    assert rebuilt.exit_code == 1
    assert "different from the live one: they differ first at ledger 1 entries" in rebuilt.stdout
    scrubbed = full.on_data("scrub")
    assert scrubbed.exit_code == 1
    assert "the index: they differ first at" in scrubbed.stdout
    assert full.on_data("rebuild-index").exit_code == 1
    assert full.on_data("scrub").exit_code == 0


def test_a_damaged_index_is_named_and_built_again(full: Place) -> None:
    before = full.on_data("list-ledgers").stdout
    for path in (full.data / "index").glob("MANIFEST*"):
        path.write_bytes(b"nonsense")

    listed = full.on_data("list-ledgers")
    assert listed.exit_code == 1
    assert "build it again with `zonekeeper bookie rebuild-index`" in listed.stderr
    assert full.on_data("scrub").exit_code == 1
    assert full.on_data("rebuild-index").exit_code == 0
    assert full.on_data("list-ledgers").stdout == before


def test_a_dry_run_keeps_the_live_index(full: Place) -> None:
    shutil.rmtree(full.data / "index")

    assert "the live index stays" in full.on_data("rebuild-index", "--dry-run").stdout

    assert not (full.data / "index").exists()
    assert not (full.data / "index.new").exists()


@pytest.mark.parametrize("words", LOOKING, ids=[words[0] for words in LOOKING])
def test_no_tool_works_beside_a_running_bookie(full: Place, words: tuple[str, ...]) -> None:
    with (full.data / "LOCK").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        answer = full.on_data(*words)

    assert answer.exit_code == 2
    assert "in use by another process" in answer.stderr


@pytest.mark.parametrize("words", LOOKING, ids=[words[0] for words in LOOKING])
def test_a_folder_that_is_no_bookies_is_refused_and_left_alone(
    place: Place, words: tuple[str, ...]
) -> None:
    place.data.mkdir()

    answer = place.on_data(*words)

    assert answer.exit_code == 2
    assert "is no bookie's data folder" in answer.stderr
    assert list(place.data.iterdir()) == []


def test_what_is_no_segment_is_refused(full: Place) -> None:
    nowhere = full.on_data("read-segment", "arrival-99999999")
    assert nowhere.exit_code == 2
    assert "there is no arrival-99999999; there are arrival-0000000" in nowhere.stderr

    checkpoint = full.on_data("read-segment", "checkpoint")
    assert checkpoint.exit_code == 2
    assert "checkpoint is no segment" in checkpoint.stderr


@pytest.mark.parametrize(
    "words", [("state",), ("list-ledgers",), ("scrub",), ("rebuild-index",), ("export-hints", "-")]
)
def test_who_only_looks_removes_nothing(full: Place, words: tuple[str, ...]) -> None:
    """The checkpoint that does not name it may not be on the disk yet: a start sees to that."""
    stray = full.data / "sorted-00000099"
    stray.write_bytes(b"unfinished, or what an older checkpoint names")

    assert full.on_data(*words).exit_code == 0

    assert stray.exists()


def failing_at(path: Path, offset: int) -> Callable[[int, int, int], bytes]:
    """Read as the kernel does where one sector of one file is bad: it names no file."""
    read, inode = os.pread, path.stat().st_ino

    def pread(descriptor: int, size: int, at: int) -> bytes:
        if os.fstat(descriptor).st_ino == inode and at <= offset < at + size:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(descriptor, size, at)

    return pread


def test_scrub_says_where_it_cannot_read_and_goes_on(
    full: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = json.loads(full.on_data("scrub", "--output", "json").stdout)
    bad = full.names("sorted")[0]
    monkeypatch.setattr(os, "pread", failing_at(bad, 600))

    answer = full.on_data("scrub", "--output", "json")

    assert answer.exit_code == 1, answer.output
    found = json.loads(answer.stdout)
    (damage,) = found["damage"]
    assert damage.startswith(f"{bad.name}, byte ")
    assert "Input/output error" in damage
    assert "it should hold ledger" in damage
    assert found["segments"] == whole["segments"]
    assert found["frames"] == whole["frames"] - 1


@pytest.mark.parametrize("offset", [0, 600])
def test_scrub_reads_the_other_arrival_segments_where_one_cannot_be_read(
    place: Place, monkeypatch: pytest.MonkeyPatch, offset: int
) -> None:
    """Whatever is in it: past the mark, or free."""
    assert place.format().exit_code == 0
    place.fill(frames=34)  # then the rewrite is behind
    whole = json.loads(place.on_data("scrub", "--output", "json").stdout)
    state = json.loads(place.on_data("state", "--output", "json").stdout)
    used = {each["name"] for each in state["arrivalSegments"] if each["generation"] is not None}
    assert len(used) > 1
    for bad in place.names("arrival"):
        with monkeypatch.context() as patch:
            patch.setattr(os, "pread", failing_at(bad, offset))
            answer = place.on_data("scrub", "--output", "json")
        found = json.loads(answer.stdout)
        lost = whole["segments"] - found["segments"]
        assert lost == (bad.name in used), bad.name
        if bad.name in used:
            assert any(bad.name in each for each in found["damage"])


def test_a_log_that_cannot_be_read_is_named(full: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = full.names("arrival")[0]
    monkeypatch.setattr(os, "pread", failing_at(bad, 0))

    answer = full.on_data("scrub")
    assert answer.exit_code == 1, answer.output
    assert f"it cannot be read: [Errno 5] Input/output error: '{bad.name}'" in answer.stdout
    refused = full.on_data("state")
    assert (refused.exit_code, bad.name in refused.stderr) == (1, True)
