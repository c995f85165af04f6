"""What was once written can be read for ever, and is still written the same way."""

import pytest

from tests.wire import carrying, framing, hextext
from zonekeeper.wire.formats import carriers, errors, frames
from zonekeeper.wire.formats.frames import Flags

FRAMES = hextext.read("golden/frames_v1.txt")
CARRIERS = hextext.read("golden/carriers_v3.txt")
PROVING_CARRIERS = hextext.read("golden/carriers_v4.txt")
FORMER_CARRIERS = {
    f"{name} of version {version}": data
    for version in (1, 2)
    for name, data in hextext.read(f"golden/carriers_v{version}.txt").items()
}

#: What the golden frames say.
FRAMES_MEAN = {
    "consecutive": framing.run(5, b"hello", b"", b"world!"),
    "listed": framing.listed([5, 8, 11]),
    "recovery": framing.run(9, b"again", flags=Flags.RECOVERY),
    "deferred sync": framing.run(9, b"soon", flags=Flags.DEFERRED_SYNC),
}


@pytest.mark.parametrize("name", FRAMES_MEAN)
def test_a_frame_of_version_1_is_read_and_written(name: str) -> None:
    frame = frames.parse(FRAMES[name])

    assert frame == FRAMES_MEAN[name]
    assert frame.flags == FRAMES_MEAN[name].flags
    assert list(frame.entry_ids) == list(FRAMES_MEAN[name].entry_ids)
    assert FRAMES_MEAN[name].data() == FRAMES[name]


@pytest.mark.parametrize("name", carrying.ONE_OF_EACH)
def test_a_carrier_of_version_3_is_read_and_written(name: str) -> None:
    item = carrying.ONE_OF_EACH[name]

    assert carriers.parse(CARRIERS[name]) == (item,)
    assert carriers.build([item]) == CARRIERS[name]


@pytest.mark.parametrize("name", FORMER_CARRIERS)
def test_a_peer_of_a_former_version_is_told_so(name: str) -> None:
    with pytest.raises(errors.FormatError) as caught:
        carriers.parse(FORMER_CARRIERS[name])

    assert isinstance(caught.value.as_protocol_error(), errors.UnsupportedVersion)


@pytest.mark.parametrize("name", carrying.PROVING)
def test_a_carrier_of_version_4_is_read_and_written(name: str) -> None:
    item = carrying.PROVING[name]

    assert carriers.parse(PROVING_CARRIERS[name], 2) == (item,)
    assert carriers.build([item], 2) == PROVING_CARRIERS[name]


def test_every_golden_section_is_looked_at() -> None:
    assert set(FRAMES) == set(FRAMES_MEAN)
    assert set(CARRIERS) == set(carrying.ONE_OF_EACH)
    assert set(PROVING_CARRIERS) == set(carrying.PROVING)
