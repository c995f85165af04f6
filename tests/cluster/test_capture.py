"""A capture finds what goes in the clear, and counts what goes at all."""

import struct

from tests.cluster.capture import Capture

MARK = b"a mark"


def frame(
    payload: bytes, *, ports: tuple[int, int] = (50_000, 3181), padding: bytes = b""
) -> bytes:
    """Give a frame of TCP over IPv4, with options in both headers."""
    tcp = struct.pack("!HHIIBBHHH", *ports, 0, 0, 6 << 4, 0, 0, 0, 0) + bytes(4)
    size = 24 + len(tcp) + len(payload)
    ip = struct.pack("!BBHHHBBH4s4s", 0x46, 0, size, 0, 0, 64, 6, 0, bytes(4), bytes(4)) + bytes(4)
    return bytes(12) + b"\x08\x00" + ip + tcp + payload + padding


def test_a_mark_is_found_at_both_ports_and_bytes_are_those_of_the_payload() -> None:
    seen = Capture(MARK)
    seen.take(frame(b"before " + MARK))
    seen.take(frame(b"nothing", ports=(3182, 50_001)))
    assert seen.found_at == {3181: 1, 50_000: 1, 3182: 0, 50_001: 0}
    assert seen.bytes_at[3181] == len(b"before " + MARK)
    assert seen.bytes_at[3182] == len(b"nothing")


def test_what_pads_a_frame_is_not_counted() -> None:
    seen = Capture(MARK)
    seen.take(frame(b"", padding=bytes(6)))
    assert seen.bytes_at == {3181: 0, 50_000: 0}


def test_what_is_no_tcp_or_is_cut_short_is_passed_over() -> None:
    seen = Capture(MARK)
    whole = frame(MARK)
    for size in range(58):
        seen.take(whole[:size])
    seen.take(whole[:12] + b"\x86\xdd" + whole[14:])
    seen.take(whole[:23] + b"\x11" + whole[24:])
    assert not seen.found_at
