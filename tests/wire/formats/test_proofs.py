"""A proof holds for one act on one ledger, on one stream of one bookie, and shows no key."""

from dataclasses import replace

import pytest

from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.wire.formats import digests, proofs
from zonekeeper.wire.formats.proofs import CallProof, ProofAct, Prover, ShownProof

KEY = digests.master_key(b"passwd")
OTHER_KEY = digests.master_key(b"guess")
NONCE = bytes(range(16))
BOOKIE = BookieId("bk-a-0")
LEDGER = LedgerId(7)
#: Made by other code: HMAC-SHA-256 of act, nonce, ledger, number and bookie, cut to 20 bytes.
GOLDEN_OPEN = "4495528ed198a01b8393f4c7e8fc9ce1826229bd"
GOLDEN_LIST = "4e231fcf66301334255b4b77fb97fb57dfe9ae97"


def shown(proof: bytes, number: int = 0, act: ProofAct = ProofAct.READ) -> ShownProof:
    return ShownProof(
        act=act, bookie=BOOKIE, nonce=NONCE, ledger_id=LEDGER, number=number, proof=proof
    )


def made() -> ShownProof:
    return shown(Prover(BOOKIE, NONCE).on_stream(ProofAct.READ, KEY, LEDGER))


def test_a_proof_is_made_the_same_way_for_ever() -> None:
    prover = Prover(BOOKIE, NONCE)
    assert prover.on_stream(ProofAct.OPEN, KEY, LEDGER).hex() == GOLDEN_OPEN
    assert prover.of_call(ProofAct.LIST, KEY, LEDGER).proof.hex() == GOLDEN_LIST


def test_a_proof_is_as_long_as_a_key_and_has_nothing_of_it() -> None:
    proof = made().proof
    assert len(proof) == proofs.PROOF_BYTES == digests.MASTER_KEY_BYTES
    assert proof != KEY
    assert bytes(KEY[:4]) not in proof


def test_the_right_key_fits_and_no_other() -> None:
    assert made().fits(KEY)
    assert proofs.fits(made(), KEY)
    assert not made().fits(OTHER_KEY)
    assert not made().fits(proofs.KEY_WITHOUT_PASSWORD)


@pytest.mark.parametrize(
    "elsewhere",
    [
        replace(made(), act=ProofAct.FENCE),
        replace(made(), act=ProofAct.OPEN),
        replace(made(), bookie=BookieId("bk-b-0")),
        replace(made(), nonce=bytes(16)),
        replace(made(), ledger_id=LedgerId(8)),
        replace(made(), number=1),
        replace(made(), proof=made().proof[:-1] + b"?"),
        replace(made(), proof=bytes(20)),
        replace(made(), proof=b""),
    ],
)
def test_a_proof_holds_nowhere_else(elsewhere: ShownProof) -> None:
    assert not elsewhere.fits(KEY)


def test_every_act_has_proofs_of_its_own() -> None:
    prover = Prover(BOOKIE, NONCE)
    assert len({prover.on_stream(act, KEY, LEDGER) for act in ProofAct}) == len(ProofAct)
    assert [act.value for act in ProofAct] == [1, 2, 3, 4, 5, 6, 7]


def test_each_call_has_another_number_and_its_proof_is_of_that_number() -> None:
    prover = Prover(BOOKIE, NONCE)
    calls = [prover.of_call(ProofAct.TAIL, KEY, LEDGER) for _ in range(3)]
    assert [call.number for call in calls] == [1, 2, 3]
    for call in calls:
        assert call.nonce == NONCE
        assert shown(call.proof, call.number, ProofAct.TAIL).fits(KEY)
        assert not shown(call.proof, call.number + 1, ProofAct.TAIL).fits(KEY)


def test_a_key_shows_itself_and_what_has_not_come_to_a_bookie_shows_nothing() -> None:
    assert proofs.fits(KEY, KEY)
    assert not proofs.fits(OTHER_KEY, KEY)
    assert not proofs.fits(None, KEY)
    assert not proofs.fits(CallProof(nonce=NONCE, number=1, proof=made().proof), KEY)


def test_only_the_key_of_a_password_is_secret() -> None:
    assert proofs.needed(KEY)
    assert not proofs.needed(None)
    assert not proofs.needed(digests.master_key(b""))


def test_no_proof_is_shown_in_a_text() -> None:
    proof = made().proof
    for value in (made(), CallProof(nonce=NONCE, number=1, proof=proof)):
        assert repr(proof)[2:-1] not in repr(value)
        assert "proof=" not in repr(value)
