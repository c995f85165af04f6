"""The messages of the socket lane: golden bytes, round trips, and bytes that are nothing."""

import json
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire import hextext, socket_sayings
from tests.wire.socket_sayings import BOOKIES, CLIENTS, NAME, SAID
from zonekeeper.wire.formats import carriers, errors, socket_messages
from zonekeeper.wire.formats.errors import Fault
from zonekeeper.wire.formats.socket_messages import (
    BookieGreeting,
    ClientGreeting,
    ConnectionKind,
    RefusedGreeting,
    StreamEnd,
)

GOLDEN = hextext.read("golden/socket_v1.txt")


def test_what_was_once_written_is_still_written_the_same_way() -> None:
    assert socket_sayings.spelled() == GOLDEN


@pytest.mark.parametrize("name", CLIENTS)
def test_a_clients_greeting_is_read(name: str) -> None:
    plugin, payload = socket_messages.parse_auth(GOLDEN[name])
    assert plugin == "zonekeeper"
    assert socket_messages.parse_client_greeting(payload) == CLIENTS[name]


@pytest.mark.parametrize("name", BOOKIES)
def test_a_bookies_greeting_is_read(name: str) -> None:
    _, payload = socket_messages.parse_auth(GOLDEN[name])
    assert socket_messages.parse_bookie_greeting(payload) == BOOKIES[name]


@pytest.mark.parametrize("name", SAID)
def test_what_is_said_beside_carriers_is_read(name: str) -> None:
    assert socket_messages.parse(GOLDEN[name]) == SAID[name]
    assert socket_messages.parse(bytearray(GOLDEN[name])) == SAID[name]


def greet(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_what_a_newer_side_adds_to_its_greeting_is_ignored() -> None:
    newer = greet(bookie=NAME, stream="Read", speaks="1..3", zone={"of": ["the client"]})
    greeting = socket_messages.parse_client_greeting(newer)
    assert (greeting.kind, str(greeting.speaks)) == (ConnectionKind.READ, "1..3")
    answer = greet(bootEpoch=1, callsMax=2, messageBytesMax=3, speaks="1", more=None)
    assert isinstance(socket_messages.parse_bookie_greeting(answer), BookieGreeting)


def test_what_apache_adds_to_an_auth_message_is_ignored() -> None:
    known = GOLDEN["bookie"]
    _, payload = socket_messages.parse_auth(known)
    for more in (b"\x18\x96\x01", b"\x22\x02ab"):  # a number, and bytes
        assert socket_messages.parse_auth(known + more) == ("zonekeeper", payload)


def test_apaches_own_answer_is_recognised() -> None:
    answer = bytes.fromhex("02030000 0a12") + b"AuthDisabledPlugin" + bytes.fromhex("1200")
    assert socket_messages.parse_auth(answer) == (socket_messages.APACHE_PLUGIN, b"")


@pytest.mark.parametrize(
    ("payload", "fault"),
    [
        (b"", Fault.TEXT),
        (b"[]", Fault.TEXT),
        (b"\xff", Fault.TEXT),
        (b"[" * 100_000, Fault.TEXT),
        (greet(stream="Append"), Fault.RANGE),
        (greet(bookie=1, stream="Append"), Fault.RANGE),
        (greet(bookie=NAME), Fault.RANGE),
        (greet(bookie=NAME, stream="Juggle"), Fault.KIND),
        (greet(bookie=NAME, stream="Append", speaks=1), Fault.RANGE),
    ],
)
def test_a_clients_greeting_that_makes_no_sense_is_refused(payload: bytes, fault: Fault) -> None:
    with pytest.raises(errors.FormatError) as caught:
        socket_messages.parse_client_greeting(payload)
    assert caught.value.fault is fault


@pytest.mark.parametrize(
    "payload",
    [
        greet(),
        greet(error=0, detail=""),
        greet(error=True, detail=""),
        greet(error=1 << 32, detail=""),
        greet(error=16),
        greet(bootEpoch=-1, callsMax=1, messageBytesMax=1),
        greet(bootEpoch=1, callsMax=0, messageBytesMax=1),
        greet(bootEpoch=1, callsMax=1, messageBytesMax="much"),
        greet(bootEpoch=1, callsMax=1, messageBytesMax=1, speaks=None),
    ],
)
def test_a_bookies_greeting_that_makes_no_sense_is_refused(payload: bytes) -> None:
    with pytest.raises(errors.FormatError):
        socket_messages.parse_bookie_greeting(payload)


def test_versions_that_are_none_are_refused() -> None:
    with pytest.raises(errors.BadRequest):
        socket_messages.parse_client_greeting(greet(bookie=NAME, stream="Read", speaks="2..1"))


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("02030000", Fault.TRUNCATED),
        ("020300000a", Fault.TRUNCATED),
        ("020300000a0561", Fault.TRUNCATED),
        ("020300000affffffffff7f", Fault.RANGE),
        ("020300000a01ff", Fault.TEXT),
        ("020300000d00000000", Fault.KIND),
        ("02010000", Fault.MAGIC),
        ("0a0608031005", Fault.MAGIC),
    ],
)
def test_an_auth_message_that_is_none_is_refused(body: str, fault: Fault) -> None:
    with pytest.raises(errors.FormatError) as caught:
        socket_messages.parse_auth(bytes.fromhex(body))
    assert caught.value.fault is fault


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"", Fault.MAGIC),
        (b"ZK", Fault.MAGIC),
        (b"ZKXX", Fault.MAGIC),
        (b"ZKPI ", Fault.TRAILING),
        (b"ZKEN\0\0", Fault.TRUNCATED),
        (b"ZKEN\0\0\0\x01\xff", Fault.TEXT),
        (b"ZKEN\0\0\0\x01" + bytes(carriers.DETAIL_BYTES_MAX + 1), Fault.LENGTH),
        (b"ZKTK" + bytes(7), Fault.TRUNCATED),
        (b"ZKTK" + bytes(9), Fault.TRAILING),
        (b"ZKAN" + bytes(7), Fault.TRUNCATED),
        (b"ZKDN" + bytes(11), Fault.TRUNCATED),
        (b"ZKCL" + bytes(12), Fault.TRUNCATED),
        (b"ZKCL" + bytes(12) + b"\x05Info", Fault.TRUNCATED),
        (b"ZKCL" + bytes(12) + b"\x01\xff", Fault.TEXT),
    ],
)
def test_a_message_that_is_none_is_refused(body: bytes, fault: Fault) -> None:
    with pytest.raises(errors.FormatError) as caught:
        socket_messages.parse(body)
    assert caught.value.fault is fault


def test_a_carrier_is_told_from_what_is_said_beside() -> None:
    assert socket_messages.is_carrier(carriers.build([carriers.Hello(boot_epoch=1)]))
    assert not any(
        socket_messages.is_carrier(socket_messages.build(said)) for said in SAID.values()
    )


def test_a_long_text_is_cut_at_a_character() -> None:
    long = "ü" * carriers.DETAIL_BYTES_MAX
    end = socket_messages.parse(socket_messages.build(StreamEnd(code=1, detail=long)))
    assert isinstance(end, StreamEnd)
    assert end.detail == "ü" * (carriers.DETAIL_BYTES_MAX // 2)
    refused = RefusedGreeting(code=1, detail=long)
    built = socket_messages.build_bookie_greeting(refused)
    assert len(built) <= socket_messages.GREETING_BYTES_MAX
    read = socket_messages.parse_bookie_greeting(socket_messages.parse_auth(built)[1])
    assert read == RefusedGreeting(code=1, detail=end.detail)


def test_the_longest_name_of_a_bookie_fits_into_a_greeting() -> None:
    long = ClientGreeting(bookie="x" * 3_000, kind=ConnectionKind.APPEND, speaks=None)
    assert len(socket_messages.build_client_greeting(long)) <= socket_messages.GREETING_BYTES_MAX


def answer(data: bytes) -> str:
    """Give what a parser says; any exception but a wire error is a failure."""
    try:
        if data[:2] != b"\x02\x03":
            said = socket_messages.parse(data)
            assert socket_messages.build(said) == data, "it has one spelling"
            return type(said).__name__
        _, payload = socket_messages.parse_auth(data)
        for parse in (socket_messages.parse_client_greeting, socket_messages.parse_bookie_greeting):
            try:
                parse(payload)
            except errors.WireError:
                continue
            return "greeting"
    except errors.FormatError as error:
        return error.fault.name
    return "no greeting"


def fuzz(seed: int, rounds: int) -> set[str]:
    chance, seeds = Random(seed), list(GOLDEN.values())
    found = set()
    for _ in range(rounds):
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(data) + 1)
            match chance.randrange(5):
                case 0 if at < len(data):
                    data[at] ^= 1 << chance.randrange(8)
                case 1 if at < len(data):
                    data[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
                case 2:
                    del data[at : at + chance.randint(1, 9)]
                case 3:
                    data[at:at] = chance.randbytes(chance.randint(1, 9))
                case _:
                    data[at:] = chance.choice(seeds)[at:]
        found.add(answer(bytes(data)))
    return found


def test_mutations_are_refused_or_spelled_the_same_way() -> None:
    assert len(fuzz(seed=1, rounds=3_000)) > 8


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(100, 104))
def test_many_mutations_are_refused_or_spelled_the_same_way(seed: int) -> None:
    fuzz(seed, rounds=200_000)


@given(
    data=st.binary(max_size=300), start=st.sampled_from([b"", b"ZKCL", b"ZKDN", b"\x02\x03\0\0"])
)
@settings(deadline=None)
def test_arbitrary_bytes_are_answered_with_a_fault_or_respelled(data: bytes, start: bytes) -> None:
    answer(start + data)
