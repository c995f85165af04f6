"""Golden files of the release before and of this one: what either wrote, the other reads."""

import hashlib

import pytest

from tests.support.checkout_root import ROOT
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.bookies.bookie_records import CODEC, BookieRecord, Mark
from zonekeeper.metadata.formats import records
from zonekeeper.metadata.formats.malformed import UnsupportedError
from zonekeeper.metadata.formats.release_formats import FormatRange, ReleaseFormats

FOLDER = ROOT / "tests" / "metadata" / "golden"
INSTANCE = "11111111-2222-3333-4444-555555555555"
BEFORE = [
    line.split()
    for line in (FOLDER / "release-before.txt").read_text().splitlines()
    if not line.startswith("#")
]
RECORD = BookieRecord(
    boot_epoch=7,
    draining=Mark(at_ms=1_700_000_000_000, by="ann", reason="replaced"),
    lost_data=6,
)
#: What this release said when the golden file was written.
FORMATS = ReleaseFormats(
    version="0.1.0",
    wire={"client-bookie": FormatRange(1, 1)},
    disk={
        "boots": FormatRange(1, 1),
        "checkpoint": FormatRange(1, 3),
        "cookie": FormatRange(5, 5),
        "known-metadata": FormatRange(1, 1),
        "log-end": FormatRange(1, 1),
    },
    metadata={
        "cookie": FormatRange(5, 5),
        "ledger": FormatRange(2, 3),
        "record": FormatRange(1, 1),
    },
)


@pytest.mark.parametrize(("digest", "path"), BEFORE)
def test_a_golden_file_of_the_release_before_stands_as_it_stood(digest: str, path: str) -> None:
    assert hashlib.sha256((ROOT / path).read_bytes()).hexdigest() == digest


def test_there_is_a_golden_file_of_each_format() -> None:
    held = " ".join(path for _, path in BEFORE)
    for name in ("carriers", "frames", "checkpoint", "log_end", "segments", "boots", "known"):
        assert f"/{name}_v" in held, name


def golden(name: str) -> bytes:
    return bytes.fromhex((FOLDER / f"{name}.hex").read_text().splitlines()[-1])


@pytest.mark.parametrize(
    ("name", "means"),
    [
        ("bookie-record", RECORD),
        (
            "bookie-record-formats",
            BookieRecord(
                boot_epoch=RECORD.boot_epoch,
                draining=RECORD.draining,
                lost_data=RECORD.lost_data,
                formats=FORMATS,
            ),
        ),
    ],
)
def test_a_bookies_record_is_read_and_written(name: str, means: BookieRecord) -> None:
    assert bookie_records.parse(golden(name), INSTANCE) == means
    assert records.render(CODEC.render(means), INSTANCE) == golden(name)


def test_a_record_of_a_newer_format_is_refused_in_words() -> None:
    newer = golden("bookie-record").replace(b'"format":1', b'"format":2')
    with pytest.raises(UnsupportedError, match=r"reads up to 1: use the newer zonekeeper"):
        bookie_records.parse(newer, INSTANCE)
