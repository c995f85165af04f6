"""What a bookie checks proofs against: a nonce for each stream, numbers, and a limit of guesses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.wire.formats import carriers, digests, errors
from zonekeeper.wire.formats.proofs import CallProof, ProofAct, Prover, Shown, ShownProof
from zonekeeper.wire.host import proving
from zonekeeper.wire.host.proving import ProofSession, ProofSessions

BOOKIE = BookieId("bk-a-0")
LEDGER = LedgerId(7)
KEY = digests.master_key(b"passwd")
#: Calls overtake each other by less than this.
BEHIND = 1_024


def test_each_stream_has_a_nonce_of_its_own() -> None:
    sessions = ProofSessions(BOOKIE)
    assert len({sessions.begun().nonce for _ in range(100)}) == 100


def test_the_first_version_of_the_wire_is_given_no_nonce() -> None:
    session = ProofSessions(BOOKIE).begun()
    assert carriers.parse(session.hello(3, 1)) == (carriers.Hello(boot_epoch=3),)
    (hello,) = carriers.parse(session.hello(3, 2), 2)
    assert hello == carriers.Hello(boot_epoch=3, nonce=session.nonce)


# ── calls ──


def asked(sessions: ProofSessions, shown: Shown | None, act: ProofAct = ProofAct.TAIL) -> bool:
    """Make a call with this; say whether it shows the key."""
    with sessions.called(act, LEDGER, shown) as got:
        return isinstance(got, ShownProof) and got.fits(KEY)


def test_a_call_that_names_a_stream_shows_the_key() -> None:
    sessions = ProofSessions(BOOKIE)
    with sessions.reading() as session:
        prover = Prover(BOOKIE, session.nonce)
        assert asked(sessions, prover.of_call(ProofAct.TAIL, KEY, LEDGER))
        assert asked(sessions, prover.of_call(ProofAct.TAIL, KEY, LEDGER))
        assert not asked(sessions, prover.of_call(ProofAct.LIST, KEY, LEDGER))
        assert not asked(sessions, prover.of_call(ProofAct.TAIL, KEY, LedgerId(8)))


def test_what_is_no_proof_is_passed_on() -> None:
    sessions = ProofSessions(BOOKIE)
    for shown in (None, KEY):
        with sessions.called(ProofAct.FENCE, LEDGER, shown) as got:
            assert got is shown


def test_a_proof_is_used_once() -> None:
    sessions = ProofSessions(BOOKIE)
    with sessions.reading() as session:
        proof = Prover(BOOKIE, session.nonce).of_call(ProofAct.TAIL, KEY, LEDGER)
        assert asked(sessions, proof)
        with pytest.raises(errors.NotProven, match="used before") as caught:
            asked(sessions, proof)
        assert (caught.value.retryable, caught.value.maybe_applied) == (True, False)


def test_a_proof_ends_with_its_stream_and_an_append_stream_is_none_to_name() -> None:
    sessions = ProofSessions(BOOKIE)
    with sessions.reading() as session:
        ended = Prover(BOOKIE, session.nonce).of_call(ProofAct.TAIL, KEY, LEDGER)
    appending = Prover(BOOKIE, sessions.begun().nonce).of_call(ProofAct.TAIL, KEY, LEDGER)
    for proof in (ended, appending):
        with pytest.raises(errors.NotProven, match="stream that has ended"):
            asked(sessions, proof)


def test_the_proof_of_a_read_cannot_be_sent_as_a_call() -> None:
    """An item's proof has the number 0, which no call may have."""
    sessions = ProofSessions(BOOKIE)
    with sessions.reading() as session:
        proof = Prover(BOOKIE, session.nonce).on_stream(ProofAct.FENCE, KEY, LEDGER)
        with pytest.raises(errors.NotProven):
            asked(sessions, CallProof(nonce=session.nonce, number=0, proof=proof), ProofAct.FENCE)


# ── numbers ──


@given(
    st.lists(st.one_of(st.integers(1, 40), st.integers(1, 3_000), st.integers(1, (1 << 64) - 1)))
)
def test_no_number_is_taken_twice_and_no_recent_one_is_refused(numbers: list[int]) -> None:
    session, taken, highest = ProofSession(BOOKIE, bytes(16)), set[int](), 0
    for number in numbers:
        takes = session.takes(number)
        if number in taken or number <= highest - BEHIND:
            assert not takes, number
        else:
            assert takes, number
        taken.add(number)
        highest = max(highest, number)


def test_numbers_that_overtake_each_other_are_taken_once_each() -> None:
    session = ProofSession(BOOKIE, bytes(16))
    order = [*range(BEHIND, 0, -1), *range(2 * BEHIND, BEHIND, -1)]
    assert all(session.takes(number) for number in order)
    assert not any(session.takes(number) for number in order)


# ── guesses ──


def guess(sessions: ProofSessions, session: ProofSession, number: int) -> None:
    proof = CallProof(nonce=session.nonce, number=number, proof=bytes(20))
    with sessions.called(ProofAct.TAIL, LEDGER, proof):
        raise errors.UnauthorizedAccess("it is the wrong key")


def test_after_too_many_wrong_proofs_the_right_one_is_refused_too() -> None:
    sessions = ProofSessions(BOOKIE)
    with sessions.reading() as session:
        for number in range(1, proving.WRONG_MAX + 1):
            session.refuse_guessing()
            assert not session.guesses.is_set()
            with pytest.raises(errors.UnauthorizedAccess, match="the wrong key"):
                guess(sessions, session, number)
        assert session.guesses.is_set()
        right = Prover(BOOKIE, session.nonce)
        for _ in range(proving.WRONG_MAX):
            right.of_call(ProofAct.TAIL, KEY, LEDGER)
        with pytest.raises(errors.NotProven, match="of a stream that has ended") as caught:
            asked(sessions, right.of_call(ProofAct.TAIL, KEY, LEDGER))
        assert caught.value.retryable  # its sender may have guessed nothing
        with pytest.raises(errors.UnauthorizedAccess, match="wrong keys of ledgers came"):
            session.refuse_guessing()


def test_only_a_wrong_key_counts_as_a_guess() -> None:
    session = ProofSession(BOOKIE, bytes(16))
    for _ in range(2 * proving.WRONG_MAX):
        for kind in set(errors.BY_NUMBER.values()) - {errors.UnauthorizedAccess}:
            session.heard(kind("something else"))
    session.refuse_guessing()
