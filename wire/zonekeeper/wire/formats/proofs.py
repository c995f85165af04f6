"""Proofs that a peer knows a ledger's key, which do not show the key. Pure.

A bookie begins each stream with a *nonce*: bytes that it drew for this stream, and that nobody can
guess. A proof is 20 bytes, the first of the HMAC-SHA-256 under the ledger's master key of ::

    | "zonekeeper proof" 0 | act 1 | nonce 16 | ledger 8 | number 8 | bookie id, UTF-8 |

All numbers are big-endian. So a proof holds for one act on one ledger, on one stream of one bookie:

* On another stream, after another start, or for another ledger it proves nothing.
* A bookie cannot pass on the nonce of another bookie as its own, and use there what it is answered.
* What is proven on the stream itself, an opening or a read, has the number 0. A call travels beside
  the stream, so its proof names the stream by the nonce, and each has another number from 1 on. The
  bookie takes each number once: a call that was overheard cannot be sent again.

The key of the empty password is no secret. It needs no proof.
"""

import enum
import hmac
import struct
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.wire.formats import digests
from zonekeeper.wire.formats.digests import MASTER_KEY_BYTES, MasterKey

NONCE_BYTES: Final = 16
#: As long as a key: a proof stands where a key would stand.
PROOF_BYTES: Final = MASTER_KEY_BYTES

#: The key of each ledger without a password.
KEY_WITHOUT_PASSWORD: Final = digests.master_key(b"")

_WHAT: Final = b"zonekeeper proof\0"
_FIXED: Final = struct.Struct(f">B{NONCE_BYTES}sQQ")


class ProofAct(enum.Enum):
    """What a proof is for. The numbers never change their meaning."""

    OPEN = 1
    READ = 2
    FENCE = 3
    READ_LAC = 4
    FORCE = 5
    TAIL = 6
    LIST = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProof:
    """The proof of a call, as it travels: it names its stream."""

    nonce: bytes
    #: Another one for each call that names this stream; from 1 on.
    number: int
    proof: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownProof:
    """A proof that came to a bookie, with all that it must have been made of."""

    act: ProofAct
    bookie: BookieId
    nonce: bytes
    ledger_id: LedgerId
    number: int = 0
    proof: bytes = field(repr=False)

    def fits(self, key: MasterKey) -> bool:
        """Was the proof made with this key? It takes as long whatever the proof is."""
        made = _proof(key, self.act, self.bookie, self.nonce, self.ledger_id, self.number)
        return hmac.compare_digest(self.proof, made)


#: What a caller shows of a ledger's key: the key itself; on its way in a call a proof; and at the
#: bookie a proof with what it must have been made of.
Shown: TypeAlias = MasterKey | CallProof | ShownProof


def fits(shown: Shown | None, key: MasterKey) -> bool:
    """Does this show that its sender knows the key?"""
    match shown:
        case ShownProof():
            return shown.fits(key)
        case None | CallProof():
            return False
        case shown_key:
            return hmac.compare_digest(shown_key, key)


class Prover:
    """Makes the proofs of one client for one stream."""

    __slots__ = ("_bookie", "_nonce", "_number")

    def __init__(self, bookie: BookieId, nonce: bytes) -> None:
        assert len(nonce) == NONCE_BYTES
        self._bookie = bookie
        self._nonce = nonce
        #: The number of the last call.
        self._number = 0

    def on_stream(self, act: ProofAct, key: MasterKey, ledger_id: LedgerId) -> bytes:
        """Prove an opening or a read, which is sent on the stream itself."""
        return _proof(key, act, self._bookie, self._nonce, ledger_id, 0)

    def of_call(self, act: ProofAct, key: MasterKey, ledger_id: LedgerId) -> CallProof:
        """Prove a call; each needs a proof of its own."""
        self._number += 1
        proof = _proof(key, act, self._bookie, self._nonce, ledger_id, self._number)
        return CallProof(nonce=self._nonce, number=self._number, proof=proof)


def needed(key: MasterKey | None) -> bool:
    """Is this the key of a password, so that it is proven and not shown?"""
    return key is not None and key != KEY_WITHOUT_PASSWORD


def _proof(
    key: MasterKey, act: ProofAct, bookie: BookieId, nonce: bytes, ledger_id: LedgerId, number: int
) -> bytes:
    fixed = _FIXED.pack(act.value, nonce, ledger_id, number)
    return hmac.digest(key, _WHAT + fixed + bookie.encode(), "sha256")[:PROOF_BYTES]
