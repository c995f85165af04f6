"""The opening of a fragment survives its bytes, and no bytes do worse than a ``FormatError``."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire import carrying
from tests.wire.link.worlds import Writer
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import carriers, openings
from zonekeeper.wire.formats.errors import Fault, FormatError
from zonekeeper.wire.formats.openings import FragmentOpening

SPELLED = openings.spell(Writer(7).opening())


@given(carrying.openings)
def test_what_is_spelled_is_parsed_to_the_same(opening: FragmentOpening) -> None:
    assert openings.parse(openings.spell(opening)) == opening
    assert openings.size_of(opening) == len(openings.spell(opening))


def test_an_opening_spelled_by_hand() -> None:
    quorums, digest = "0003000300020002", "03"
    names = [bookie.encode() for bookie in Writer(7).opening().ensemble]
    spelled = b"".join(len(name).to_bytes(2, "big") + name for name in names)

    assert SPELLED[:16].hex() == "00000000000000070000000000000000"
    assert SPELLED[16:36] == Writer(7).opening().master_key
    assert SPELLED[36:45].hex() == quorums + digest
    assert SPELLED[45:] == spelled


def test_every_opening_cut_short_is_noticed() -> None:
    for size in range(len(SPELLED)):
        with pytest.raises(FormatError) as caught:
            openings.parse(SPELLED[:size])
        assert caught.value.fault is Fault.TRUNCATED


@pytest.mark.parametrize(
    ("at", "new", "fault", "words"),
    [
        (0, b"\xff", Fault.RANGE, "not a ledger or entry id"),
        (8, b"\xff", Fault.RANGE, "not a ledger or entry id"),
        (36, b"\0\2", Fault.RANGE, "quorums 2/3/2"),
        (38, b"\0\1", Fault.RANGE, "quorums 3/1/2"),
        (40, b"\0\0", Fault.RANGE, "quorums 3/3/0"),
        (42, b"\0\3", Fault.RANGE, "in 3 zones"),
        (42, b"\0\0", Fault.RANGE, "in 0 zones"),
        (44, b"\5", Fault.RANGE, "digest 5"),
        (47, b"\xff", Fault.TEXT, "utf-8"),
        (36, b"\0\4", Fault.TRUNCATED, "3 of 4 bookies"),
        (45, b"\xff\xff", Fault.TRUNCATED, "0 of 3"),
    ],
)
def test_an_opening_that_says_something_impossible_is_refused_in_words(
    at: int, new: bytes, fault: Fault, words: str
) -> None:
    with pytest.raises(FormatError, match=words) as caught:
        openings.parse(SPELLED[:at] + new + SPELLED[at + len(new) :])
    assert caught.value.fault is fault


def test_nothing_may_follow_an_opening() -> None:
    with pytest.raises(FormatError) as caught:
        openings.parse(SPELLED + b"x")
    assert caught.value.fault is Fault.TRAILING


def test_a_create_token_is_the_end_of_an_opening_and_left_out_if_it_is_not_known() -> None:
    opening = dataclasses.replace(Writer(7).opening(), create_token=0x0102)
    spelled = openings.spell(opening)

    assert spelled == SPELLED + bytes.fromhex("0000000000000102")
    assert openings.size_of(opening) == len(spelled)
    assert openings.parse(spelled) == opening
    assert openings.parse(SPELLED).create_token == 0


@pytest.mark.parametrize("token", [bytes(8), b"\xff" * 8])
def test_a_create_token_out_of_range_is_refused(token: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        openings.parse(SPELLED + token)
    assert caught.value.fault is Fault.RANGE


@given(st.binary(max_size=99))
def test_arbitrary_bytes_are_a_format_error_or_an_opening(data: bytes) -> None:
    try:
        found = openings.parse(data)
    except FormatError:
        return
    assert openings.spell(found) == data


def test_an_opening_of_the_largest_ensemble_of_a_policy_with_long_names_fits() -> None:
    opening = Writer(7).opening()
    names = tuple(BookieId(f"{number:0>253}") for number in range(32))
    quorums = opening.quorums
    large = FragmentOpening(
        ledger_id=opening.ledger_id,
        master_key=opening.master_key,
        quorums=type(quorums)(ensemble=32, write=3, ack=2, ack_zones=2),
        digest=opening.digest,
        first_entry_id=opening.first_entry_id,
        ensemble=names,
    )
    assert len(openings.spell(large)) < openings.BYTES_MAX // 4


def test_a_peer_names_no_more_bookies_than_it_may_and_a_disk_may_have_more() -> None:
    def naming(count: int) -> FragmentOpening:
        names = tuple(BookieId(f"{number:x}") for number in range(count))
        quorums = Quorums(ensemble=count, write=1, ack=1)
        return dataclasses.replace(Writer(7).opening(), ensemble=names, quorums=quorums)

    for count in (openings.BOOKIES_MAX, openings.BOOKIES_MAX + 1):
        assert openings.parse(openings.spell(naming(count))) == naming(count)
    most = openings.spell(naming(openings.BOOKIES_MAX))
    assert openings.parse_peers(most) == openings.parse(most)
    with pytest.raises(FormatError, match="257 bookies, at most 256"):
        openings.parse_peers(openings.spell(naming(openings.BOOKIES_MAX + 1)))
    opened = carriers.build([carriers.Open(number=1, opening=naming(openings.BOOKIES_MAX + 1))])
    with pytest.raises(FormatError, match="257 bookies"):
        carriers.parse(opened)
