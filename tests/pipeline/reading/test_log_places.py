"""A place in a log is told by how it looks, and nothing is guessed."""

import pytest

from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.pipeline.reading import log_places
from zonekeeper.pipeline.reading.wanted import AtSequence, AtTime, ReadEdge, ReadPlace
from zonekeeper.placement.base.ids import EntryId, LedgerId


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", ReadEdge.EARLIEST),
        ("Latest", ReadEdge.LATEST),
        ("17:204:3", MessageId(LedgerId(17), EntryId(204), 3)),
        ("sequence:0", AtSequence(0)),
        ("sequence:9223372036854775807", AtSequence((1 << 63) - 1)),
        ("1970-01-01T00:00:01Z", AtTime(1_000)),
        ("1970-01-01T00:00:01.5", AtTime(1_500)),
        ("1970-01-01T01:00:00+01:00", AtTime(0)),
        ("1970-01-02", AtTime(86_400_000)),
    ],
)
def test_each_form_is_read(text: str, place: ReadPlace) -> None:
    assert log_places.parse(text) == place


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("204", "write sequence:204 for a sequence"),
        ("", "is no place in a log"),
        ("now", "is no place in a log"),
        ("17:204", "is no place in a log"),
        ("017:204:3", "is not the id of a message"),
        ("1:2:4294967296", "is not the id of a message"),
        ("sequence:9223372036854775808", "is no place in a log"),
        ("sequence:", "is no place in a log"),
        ("sequence:-1", "is no place in a log"),
        ("1969-12-31T23:59:59Z", "is no place in a log"),
        ("2026-13-01", "is no place in a log"),
        ("20261127", "write sequence:20261127"),
    ],
)
def test_any_other_text_is_refused_with_the_forms(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        log_places.parse(text)
