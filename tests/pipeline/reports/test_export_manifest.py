"""The manifest of an export: read as it was written, and refused when anything of it changed."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.metadata.formats.malformed import MalformedError, UnreadableError, UnsupportedError
from zonekeeper.pipeline.reports import export_manifest
from zonekeeper.pipeline.reports.export_manifest import ExportManifest
from zonekeeper.pipeline.reports.message_hash import MessageSums

ONE = ExportManifest(
    export="0e" * 16,
    log="orders/eu-1",
    log_id="0f" * 16,
    sums=MessageSums(messages=30, first=500, end=530, hash=bytes(range(32))),
)
#: Written by the first version; it stays readable for ever.
GOLDEN = (
    b'{"checksum":"93276ded42f107e07e0b518c102ebfdcfc1e2ced7a904cacf8fb235795adbebc","end":530,"export":"0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e","first":500,'
    b'"format":"zonekeeper log export","hash":'
    b'"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f","log":"orders/eu-1",'
    b'"logId":"0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f","messages":30,"version":1}\n'
)


def changed(**fields: object) -> bytes:
    """Give a manifest with other fields, and the checksum right; None: without the field."""
    plain = json.loads(export_manifest.build(ONE))
    del plain["checksum"]
    plain = {name: value for name, value in {**plain, **fields}.items() if value is not None}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()
    return json.dumps({**plain, "checksum": hashlib.sha256(text).hexdigest()}).encode()


def test_a_manifest_is_read_as_it_was_written() -> None:
    assert export_manifest.build(ONE) == GOLDEN
    assert export_manifest.parse(GOLDEN) == ONE
    assert export_manifest.parse(changed()) == ONE


@pytest.mark.parametrize(
    "fields",
    [
        {"format": "another"},
        {"format": None},
        {"first": -1},
        {"first": True},
        {"first": "500"},
        {"first": 501},
        {"end": 1 << 63},
        {"end": None},
        {"messages": 29},
        {"messages": 30.0},
        {"hash": "00"},
        {"hash": "FF" * 32},
        {"logId": None},
        {"export": 7},
        {"log": "no name"},
        {"log": 7},
    ],
)
def test_a_field_that_is_wrong_or_lacking_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(MalformedError):
        export_manifest.parse(changed(**fields))


def test_a_newer_manifest_is_refused_as_newer() -> None:
    with pytest.raises(UnsupportedError, match="version 2"):
        export_manifest.parse(changed(version=2))
    with pytest.raises(UnsupportedError, match="'packing', which a newer program wrote"):
        export_manifest.parse(changed(packing="zstd"))


def test_a_changed_byte_or_a_lost_end_is_seen() -> None:
    for at in range(len(GOLDEN) - 1):
        with pytest.raises(UnreadableError):
            export_manifest.parse(GOLDEN[:at])
        with pytest.raises(UnreadableError):
            export_manifest.parse(GOLDEN[:at] + bytes([GOLDEN[at] ^ 1]) + GOLDEN[at + 1 :])


@given(st.binary(max_size=300))
def test_bytes_that_are_none_are_refused(raw: bytes) -> None:
    with pytest.raises(UnreadableError):
        export_manifest.parse(raw)


@pytest.mark.parametrize("raw", [b"[]", b"null", b"7", b"[" * 10_000, b" " * (17 << 10)])
def test_json_that_is_none_is_refused(raw: bytes) -> None:
    with pytest.raises(MalformedError):
        export_manifest.parse(raw)
