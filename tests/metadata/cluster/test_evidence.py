"""What proves that metadata was set back, and what a person accepted of it."""

from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.metadata.cluster import evidence
from zonekeeper.metadata.cluster.evidence import Accepted, EvidenceKind, Knowledge, StoreEvidence
from zonekeeper.placement.base.ids import BookieId

A, B = BookieId("bk-a-0"), BookieId("bk-b-0")
NUMBERS = st.integers(0, 4)
KNOWN = st.builds(Knowledge, starts=NUMBERS, ids=NUMBERS, policy=NUMBERS)


def kinds(known: Knowledge, found: Knowledge) -> set[EvidenceKind]:
    return {one.kind for one in evidence.proofs(A, known, found, Accepted())}


def test_a_lower_number_in_the_store_is_evidence() -> None:
    known = Knowledge(starts=3, ids=100, policy=2)
    assert kinds(known, known) == set()
    assert kinds(known, Knowledge(starts=4, ids=101, policy=3)) == set()
    assert kinds(known, Knowledge(starts=2, ids=100, policy=2)) == {EvidenceKind.STARTS}
    assert kinds(known, Knowledge(starts=3, ids=99, policy=2)) == {EvidenceKind.IDS}
    assert kinds(known, Knowledge(starts=3, ids=100, policy=1)) == {EvidenceKind.POLICY}


def test_a_record_that_is_gone_proves_nothing_and_a_counter_that_is_gone_does() -> None:
    known = Knowledge(starts=3, ids=100, policy=2)
    assert kinds(known, Knowledge(ids=100)) == set()
    assert kinds(known, Knowledge(starts=3, policy=2)) == {EvidenceKind.IDS}
    assert evidence.kept(known, Knowledge(ids=100)) == known


@given(KNOWN, KNOWN, st.sampled_from([A, B]))
def test_what_a_person_accepted_is_no_evidence_again(
    known: Knowledge, found: Knowledge, bookie: BookieId
) -> None:
    first = evidence.proofs(bookie, known, found, Accepted())
    accepted = Accepted().also(first)
    assert evidence.proofs(bookie, known, found, accepted) == ()


@given(KNOWN, KNOWN, KNOWN)
def test_more_than_a_person_accepted_is_evidence(
    known: Knowledge, more: Knowledge, found: Knowledge
) -> None:
    accepted = Accepted().also(evidence.proofs(A, known, found, Accepted()))
    for one in evidence.proofs(A, more, found, Accepted()):
        told = evidence.proofs(A, more, found, accepted)
        was_accepted = found.number(one.kind) < known.number(one.kind) and (
            one.known <= known.number(one.kind)
        )
        assert (one in told) is not was_accepted


def test_the_starts_of_another_bookie_are_not_accepted_with_ours() -> None:
    known, found = Knowledge(starts=3), Knowledge(starts=1)
    accepted = Accepted().also(evidence.proofs(A, known, found, Accepted()))
    assert evidence.proofs(A, known, found, accepted) == ()
    assert evidence.proofs(B, known, found, accepted) != ()


def test_an_import_is_accepted_whole_but_nothing_that_came_after_it() -> None:
    accepted = Accepted(before_ids=7 << 32)
    found = Knowledge(starts=1, ids=7 << 32, policy=1)
    assert evidence.proofs(A, Knowledge(starts=9, ids=500, policy=9), found, accepted) == ()
    at_once = Knowledge(starts=9, ids=7 << 32, policy=1)
    assert len(evidence.proofs(A, at_once, found, accepted)) == 1
    later = Knowledge(starts=9, ids=7 << 32 | 1, policy=1)
    assert {one.kind for one in evidence.proofs(A, later, found, accepted)} == {
        EvidenceKind.STARTS,
        EvidenceKind.IDS,
    }


def one_of(bookie: BookieId, known: int) -> StoreEvidence:
    return StoreEvidence(bookie=bookie, kind=EvidenceKind.IDS, known=known, found=1)


def test_a_mark_names_the_strongest_evidence_of_each_bookie_and_only_so_much() -> None:
    both = evidence.merged((one_of(A, 3),), (one_of(A, 5), one_of(B, 2)), limit=9)
    assert both == (one_of(A, 5), one_of(B, 2))
    assert evidence.merged(both, (one_of(A, 4),), limit=9) == both
    assert evidence.merged((one_of(B, 2),), (one_of(A, 5),), limit=1) == (one_of(B, 2),)


def test_evidence_says_in_words_what_was_known_and_what_is_found() -> None:
    known, found = Knowledge(starts=3, ids=100, policy=2), Knowledge(starts=2, ids=9, policy=1)
    said = [str(one) for one in evidence.proofs(A, known, found, Accepted())]
    assert sorted(said) == [
        "bk-a-0 knew of 3 starts of the bookie, and the store knows of 2",
        "bk-a-0 knew of ledger ids below 100, and the store gave out those below 9",
        "bk-a-0 knew of version 2 of the policy, and the store has version 1",
    ]
