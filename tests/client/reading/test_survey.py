"""When enough bookies have spoken of a ledger's end. S17, S18 of docs/scenarios.md."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.client.reading import survey
from zonekeeper.client.reading.survey import Evidence, Survey
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import entries

SEALER = entries.Sealer(LedgerId(7), Digest.CRC32C, b"")
NOTHING = Evidence(NO_ENTRY, None)


def asked(quorums: Quorums) -> Survey:
    return Survey(quorums=quorums, zones=(None,) * quorums.ensemble, last_add_confirmed=NO_ENTRY)


def nobody_can_be_acknowledged(quorums: Quorums, answered: set[int]) -> bool:
    """By brute force: every ack quorum of every write set has a member that answered."""
    return all(
        answered & set(quorum)
        for first in range(quorums.ensemble)
        for quorum in combinations(quorums.write_set(EntryId(first)), quorums.ack)
    )


@given(st.data())
def test_s18_coverage_holds_in_each_write_set(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 7))
    write = data.draw(st.integers(1, size))
    quorums = Quorums(ensemble=size, write=write, ack=data.draw(st.integers(1, write)))
    answered = data.draw(st.sets(st.integers(0, size - 1)))
    silent = data.draw(st.sets(st.integers(0, size - 1))) - answered
    found = asked(quorums)
    for position in answered:
        found.heard(position, NOTHING)
    for position in silent:
        found.failed(position, Exception("silence"))
    assert found.complete == nobody_can_be_acknowledged(quorums, answered)
    assert found.hopeless == (not found.complete and answered | silent == set(range(size)))


def test_s17_two_of_three_are_enough() -> None:
    found = asked(Quorums(ensemble=3, write=3, ack=2))
    found.heard(0, NOTHING)
    assert not found.complete
    found.denied(2)
    assert found.complete


def test_the_highest_lac_counts_and_lengths_are_kept_by_entry() -> None:
    found = asked(Quorums(ensemble=3, write=3, ack=2))
    for position, (number, lac) in enumerate(((9, 4), (7, 6))):
        packet = SEALER.seal(EntryId(number), EntryId(lac), 100 + number, b"x")
        said = service.LacEvidence(explicit_lac=None, last_entry=packet)
        found.heard(position, survey.check(SEALER, said))
    assert found.last_add_confirmed == 6
    assert found.lengths == {9: 109, 7: 107}


def test_an_explicit_lac_may_be_ahead_of_the_last_packet() -> None:
    said = service.LacEvidence(
        explicit_lac=SEALER.seal_lac(EntryId(9)),
        last_entry=SEALER.seal(EntryId(9), EntryId(8), 50, b"x"),
    )
    assert survey.check(SEALER, said).last_add_confirmed == 9


def test_nothing_at_all_is_an_answer() -> None:
    said = service.LacEvidence(explicit_lac=None, last_entry=None)
    assert survey.check(SEALER, said) == NOTHING


def test_damaged_packets_are_refused() -> None:
    packet = bytearray(SEALER.seal(EntryId(9), EntryId(8), 50, b"x"))
    packet[-1] ^= 1
    lac = bytearray(SEALER.seal_lac(EntryId(9)))
    lac[8] ^= 1
    for said in (
        service.LacEvidence(explicit_lac=None, last_entry=bytes(packet)),
        service.LacEvidence(explicit_lac=None, last_entry=b"short"),
        service.LacEvidence(explicit_lac=bytes(lac), last_entry=None),
    ):
        try:
            survey.check(SEALER, said)
        except entries.EntryError:
            continue
        raise AssertionError("damage was believed")
