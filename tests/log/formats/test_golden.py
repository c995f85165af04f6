"""What was once written can be read for ever, and is still written the same way."""

from pathlib import Path

import pytest

from tests.log.batching import EVERYTHING, PACKERS, built
from tests.wire import hextext
from zonekeeper.log.formats import batches, manifests, openings
from zonekeeper.log.formats.batches import Packing
from zonekeeper.log.formats.manifests import Manifest, NamedAttempt
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.log.formats.openings import (
    AttemptOpening,
    ChainedOpening,
    LogOpening,
    ManifestOpening,
    Predecessor,
)
from zonekeeper.placement.base.ids import EntryId, LedgerId

HERE = Path(__file__).parent.parent
BATCHES = hextext.read("golden/batches_v1.txt", HERE)
OPENINGS = hextext.read("golden/openings_v1.txt", HERE)
MANIFESTS = hextext.read("golden/manifests_v1.txt", HERE)

LOG_ID = bytes(range(16))
PLAIN = (LogMessage(payload=b"hello"), LogMessage(payload=b""), LogMessage(payload=b"world!"))
ALIKE = tuple(LogMessage(payload=b"the same words again") for _ in range(20))

#: What the golden batches say. A packed one is read; a newer library may pack it otherwise.
BATCHES_MEAN = {
    "plain": (PLAIN, Packing.NONE),
    "everything": (EVERYTHING, Packing.NONE),
    "zlib": (ALIKE, Packing.ZLIB),
    "zstd": (ALIKE, Packing.ZSTD),
}
OPENINGS_MEAN: dict[str, LogOpening] = {
    "first": ChainedOpening(log_id=LOG_ID, epoch=1, name="orders/eu-1", sequence=0, before=None),
    "chained": ChainedOpening(
        log_id=LOG_ID,
        epoch=2,
        name="orders/eu-1",
        sequence=1_000_000,
        before=Predecessor(ledger=LedgerId(17), last_entry=EntryId(204)),
    ),
    "attempt": AttemptOpening(
        log_id=LOG_ID, epoch=3, name="orders/eu-1", query="6f2ee3ee", batch=41, partition=7
    ),
    "manifest": ManifestOpening(
        log_id=LOG_ID,
        epoch=3,
        name="orders/eu-1",
        sequence=1_000_900,
        before=Predecessor(ledger=LedgerId(17), last_entry=EntryId(204)),
        query="6f2ee3ee",
        batch=41,
    ),
}
MANIFESTS_MEAN = {
    "attempts": Manifest(
        query="6f2ee3ee",
        run="0b4c",
        batch=41,
        is_job=False,
        messages=12,
        attempts=(
            NamedAttempt(
                ledger=LedgerId(18), last_entry=EntryId(7), messages=500, size_bytes=70_000
            ),
            NamedAttempt(
                ledger=LedgerId(20), last_entry=EntryId(5), messages=400, size_bytes=50_000
            ),
        ),
    ),
    "job": Manifest(query="j", run="j", batch=0, is_job=True, messages=3, attempts=()),
}


@pytest.mark.parametrize("name", BATCHES_MEAN)
def test_a_batch_of_version_1_is_read_and_written(name: str) -> None:
    many, packing = BATCHES_MEAN[name]

    batch = batches.parse(BATCHES[name], PACKERS)

    assert batch.messages() == list(many)
    assert (batch.place, batch.wall_ms, batch.packing) == (7, 1_700_000_000_000, packing)
    if packing is Packing.NONE:
        assert built(*many) == BATCHES[name]


@pytest.mark.parametrize("name", OPENINGS_MEAN)
def test_an_opening_of_version_1_is_read_and_written(name: str) -> None:
    assert openings.parse(OPENINGS[name]) == OPENINGS_MEAN[name]
    assert openings.build(OPENINGS_MEAN[name]) == OPENINGS[name]


@pytest.mark.parametrize("name", MANIFESTS_MEAN)
def test_a_manifest_of_version_1_is_read_and_written(name: str) -> None:
    assert manifests.parse(MANIFESTS[name]) == MANIFESTS_MEAN[name]
    assert manifests.build(MANIFESTS_MEAN[name]) == MANIFESTS[name]
    assert manifests.is_manifest(MANIFESTS[name])
    assert not any(map(manifests.is_manifest, [*BATCHES.values(), *OPENINGS.values(), b""]))


def test_every_golden_section_is_looked_at() -> None:
    assert set(BATCHES) == set(BATCHES_MEAN)
    assert set(OPENINGS) == set(OPENINGS_MEAN)
    assert set(MANIFESTS) == set(MANIFESTS_MEAN)
