"""What is packed comes out again, and no more of it than was asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.log.formats.batches import Packing
from zonekeeper.log.packing import packers

every_packing = pytest.mark.parametrize("packing", [Packing.ZLIB, Packing.ZSTD])


@every_packing
@given(body=st.binary(min_size=1, max_size=500))
def test_a_body_comes_out_as_it_went_in(packing: Packing, body: bytes) -> None:
    packer = packers.available()[packing]

    assert packer.unpack(packer.pack(body), len(body)) == body


@every_packing
@pytest.mark.parametrize("size", [1, 99, 101, 10_000])
def test_another_size_than_the_bodys_is_refused(packing: Packing, size: int) -> None:
    packer = packers.available()[packing]

    with pytest.raises(ValueError, match=r"."):
        packer.unpack(packer.pack(bytes(100)), size)


@every_packing
def test_bytes_behind_the_packed_ones_are_refused(packing: Packing) -> None:
    packer = packers.available()[packing]

    with pytest.raises(ValueError, match=r"."):
        packer.unpack(packer.pack(bytes(100)) + b"more", 100)


@every_packing
@given(packed=st.binary(max_size=100))
def test_arbitrary_bytes_are_refused_or_give_what_was_asked_for(
    packing: Packing, packed: bytes
) -> None:
    try:
        body = packers.available()[packing].unpack(packed, 50)
    except ValueError:
        return
    assert len(body) == 50


def test_zstd_is_not_among_them_without_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    packers.available.cache_clear()
    try:
        assert set(packers.available()) == {Packing.ZLIB}
    finally:
        packers.available.cache_clear()
