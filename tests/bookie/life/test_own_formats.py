"""What a release says of its formats is what its code reads and writes."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from zonekeeper.bookie.commands.bookie import bookie
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.formats import batch_format, checkpoint_format, log_end, sorted_format
from zonekeeper.bookie.life import boots, known_metadata, own_formats
from zonekeeper.bookie.life.known_metadata import NewerFileError
from zonekeeper.metadata.cluster.evidence import Knowledge
from zonekeeper.metadata.formats import cookies, ledger_format, records, release_formats
from zonekeeper.metadata.formats.malformed import MalformedError
from zonekeeper.metadata.formats.release_formats import FormatRange, ReleaseFormats
from zonekeeper.placement.base.fields import Plain
from zonekeeper.wire.formats import frames, versions

OURS = own_formats.of_this_release()


def test_what_has_no_version_of_its_own_on_a_disk_is_covered_by_the_checkpoints() -> None:
    """A change of one of these is a new version of the checkpoint, too (``own_formats``)."""
    assert (batch_format.VERSION, sorted_format.VERSION, frames.VERSION) == (1, 1, 1)
    assert OURS.disk["checkpoint"] == FormatRange(1, 3)


def test_the_ranges_are_those_of_the_codecs() -> None:
    assert OURS.wire == {
        "client-bookie": FormatRange(versions.SPOKEN.lowest, versions.SPOKEN.highest)
    }
    assert OURS.disk["checkpoint"].highest == checkpoint_format.VERSION
    assert OURS.disk["log-end"].highest == log_end.VERSION
    assert OURS.disk["boots"].highest == boots.VERSION
    assert OURS.disk["known-metadata"].highest == known_metadata.VERSION
    assert OURS.metadata == {
        "record": FormatRange(records.FORMAT_MIN, records.FORMAT),
        "ledger": FormatRange(ledger_format.VERSION_MIN, ledger_format.VERSION),
        "cookie": FormatRange(cookies.LAYOUT_VERSION, cookies.LAYOUT_VERSION),
    }


def test_a_newer_file_of_known_metadata_is_refused_and_left_as_it_is() -> None:
    files = MemoryFileSystem()
    known_metadata.save(files, Knowledge(starts=1, ids=2, policy=3))
    files.open(known_metadata.NAME).write(4, [b"\x02"])
    before = files.open(known_metadata.NAME).read(0, 100)

    with pytest.raises(NewerFileError, match=r"newer zonekeeper .* start that version"):
        known_metadata.load(files)
    assert files.open(known_metadata.NAME).read(0, 100) == before


def test_the_command_prints_the_formats_and_leaves_them_as_last_words(tmp_path: Path) -> None:
    file = tmp_path / "last-words"
    ran = CliRunner(env={"ZONEKEEPER_TERMINATION_LOG": str(file)}).invoke(
        bookie, ["formats", "--output", "json"], catch_exceptions=False
    )

    assert ran.exit_code == 0
    assert release_formats.of_plain(json.loads(ran.stdout)) == OURS
    assert release_formats.parse(file.read_text()) == OURS
    assert "\n" not in file.read_text()


def test_the_command_prints_one_format_a_line_and_needs_no_file() -> None:
    ran = CliRunner(env={"ZONEKEEPER_TERMINATION_LOG": None}).invoke(
        bookie, ["formats"], catch_exceptions=False
    )

    lines = ran.stdout.splitlines()
    assert lines[0] == f"version {OURS.version}"
    assert "disk checkpoint 1..3" in lines
    assert "wire client-bookie 1..2" in lines


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.pop("version"),
        lambda data: data.pop("disk"),
        lambda data: data.update(disk=[]),
        lambda data: data["disk"].update(boots=1),
        lambda data: data["disk"].update(boots={"lowest": 1}),
        lambda data: data["disk"].update(boots={"lowest": 2, "highest": 1}),
        lambda data: data["disk"].update(boots={"lowest": -1, "highest": 1}),
        lambda data: data["disk"].update(boots={"lowest": True, "highest": 1}),
    ],
)
def test_formats_that_make_no_sense_are_none(change: Callable[[dict[str, Plain]], object]) -> None:
    data = OURS.plain()
    change(data)
    with pytest.raises(MalformedError):
        release_formats.of_plain(data)


@pytest.mark.parametrize("text", ["", "Error: No such command 'formats'.", "1", "[" * 9_000])
def test_a_text_that_is_no_object_is_no_formats(text: str) -> None:
    with pytest.raises(MalformedError):
        release_formats.parse(text)


def test_keys_of_a_newer_release_are_ignored() -> None:
    data: dict[str, Plain] = {**OURS.plain(), "later": [1]}
    disk: Mapping[str, Plain] = {
        "boots": {"lowest": 1, "highest": 2, "since": "0.2"},
        "new": {"lowest": 1, "highest": 1},
    }
    data["disk"] = dict(disk)
    found = release_formats.of_plain(data)
    assert found == ReleaseFormats(
        version=OURS.version,
        wire=OURS.wire,
        disk={"boots": FormatRange(1, 2), "new": FormatRange(1, 1)},
        metadata=OURS.metadata,
    )
