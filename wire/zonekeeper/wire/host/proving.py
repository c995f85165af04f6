"""What the proofs of ledgers' keys are checked against at a bookie: one nonce for each stream.

A nonce is drawn for each stream, and is forgotten with it. So a proof of another stream, or of an
earlier start of the bookie, fits nothing here. A call names the Read stream of its client by the
nonce, and must bring a number that no call before it has brought (``_NUMBERS_BEHIND_MAX``).

Nothing is remembered of the ledgers that were proven on a stream: a proof stands in each request
that needs one, and costs two microseconds. So a stream takes the same memory whatever it proves,
and no proof outlives the ledger for which it was made.

A peer that guesses loses its Read stream after ``WRONG_MAX`` wrong ones, and its Append stream at
the next opening; its calls are refused. Not promised: without TLS, one who overhears a nonce may
disturb its stream by wrong proofs and numbers. And a fence of the first version of the wire, with
which the key itself is shown, belongs to no stream, and is not counted.
"""

import asyncio
import dataclasses
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.wire.formats import carriers, errors, proofs
from zonekeeper.wire.formats.proofs import CallProof, ProofAct, Shown, ShownProof

#: After so many wrong keys and proofs a stream ends.
WRONG_MAX: Final = 16
#: A call's number may be so far behind the highest that came: calls overtake each other.
_NUMBERS_BEHIND_MAX: Final = 1_024

#: Gives so many bytes that nobody can guess.
Draw: TypeAlias = Callable[[int], bytes]


class ProofSession:
    """One stream, as proofs see it."""

    __slots__ = ("_bookie", "_came", "_highest", "_wrong", "guesses", "nonce")

    def __init__(self, bookie: BookieId, nonce: bytes) -> None:
        self._bookie = bookie
        self.nonce = nonce
        self._wrong = 0
        #: Set after too many wrong keys and proofs.
        self.guesses = asyncio.Event()
        #: The highest number that came, and a bit for each number up to it: the lowest bit is its.
        self._highest = 0
        self._came = 1

    def hello(self, boot_epoch: int, wire_version: int) -> bytes:
        """Give the first message of the stream."""
        nonce = self.nonce if wire_version >= carriers.PROVING else None
        return carriers.build([carriers.Hello(boot_epoch=boot_epoch, nonce=nonce)], wire_version)

    def shown(
        self, act: ProofAct, ledger_id: LedgerId, proof: bytes, number: int = 0
    ) -> ShownProof:
        """Give a proof that came, with what it must have been made of."""
        return ShownProof(
            act=act,
            bookie=self._bookie,
            nonce=self.nonce,
            ledger_id=ledger_id,
            number=number,
            proof=proof,
        )

    def of_opening(self, item: carriers.Open) -> carriers.Open:
        """Give an opening with what it shows, if it proves the key."""
        if not item.proven:
            return item
        opening = item.opening
        proof = self.shown(ProofAct.OPEN, opening.ledger_id, opening.master_key)
        return dataclasses.replace(item, shown=proof)

    def of_read(self, read: carriers.Read) -> Shown | None:
        """Give what a read shows."""
        if read.proof is None:
            return read.fence_key
        act = ProofAct.FENCE if read.fences else ProofAct.READ
        return self.shown(act, read.ledger_id, read.proof)

    def takes(self, number: int) -> bool:
        """Take a call's number; False if it came before, or may have come before."""
        ahead = number - self._highest
        if ahead > 0:
            kept = self._came << ahead if ahead <= _NUMBERS_BEHIND_MAX else 0
            self._highest = number
            self._came = (kept | 1) & ((1 << _NUMBERS_BEHIND_MAX) - 1)
            return True
        bit = 1 << -ahead if -ahead < _NUMBERS_BEHIND_MAX else 0
        if not bit or self._came & bit:
            return False
        self._came |= bit
        return True

    def heard(self, error: errors.ProtocolError) -> None:
        """Note why something was refused with which a key or a proof came."""
        if isinstance(error, errors.UnauthorizedAccess):
            self._wrong += 1
            if self._wrong >= WRONG_MAX:
                self.guesses.set()

    async def until_guessing(self) -> None:
        """Raise UnauthorizedAccess once there are too many wrong keys and proofs."""
        await self.guesses.wait()
        self.refuse_guessing()

    def refuse_guessing(self) -> None:
        """Raise UnauthorizedAccess after too many wrong keys and proofs: the stream ends."""
        if self.guesses.is_set():
            raise errors.UnauthorizedAccess(
                f"{self._wrong} wrong keys of ledgers came on this connection, which ends: are the "
                "passwords right?"
            )


class ProofSessions:
    """The streams of one bookie."""

    def __init__(self, bookie: BookieId, draw: Draw = secrets.token_bytes) -> None:
        self._bookie = bookie
        self._draw = draw
        #: The Read streams, by nonce.
        self._reading: dict[bytes, ProofSession] = {}

    def begun(self) -> ProofSession:
        """Give what a new stream needs."""
        return ProofSession(self._bookie, self._draw(proofs.NONCE_BYTES))

    @contextmanager
    def reading(self) -> Iterator[ProofSession]:
        """Give what a new Read stream needs; calls may name it during the block."""
        session = self.begun()
        self._reading[session.nonce] = session
        try:
            yield session
        finally:
            self._reading.pop(session.nonce, None)

    @contextmanager
    def called(
        self, act: ProofAct, ledger_id: LedgerId, shown: Shown | None
    ) -> Iterator[Shown | None]:
        """Give what a call shows, for the bookie, which is asked during the block.

        Raises NotProven for a proof that can be of no use. A stream with too many wrong ones ends,
        and so none of it is of use, not the right one either: it may be of another ledger, whose
        owner has guessed nothing, and proves it again on the next stream.
        """
        if not isinstance(shown, CallProof):
            yield shown
            return
        session = self._reading.get(shown.nonce)
        ended = session is None or session.guesses.is_set()
        if session is None or ended or not session.takes(shown.number):
            why = "of a stream that has ended" if ended else "one that was used before"
            raise errors.NotProven(
                f"ledger {ledger_id}: the proof of its key is {why}; nothing was done: make "
                "another on the present connection"
            )
        try:
            yield session.shown(act, ledger_id, shown.proof, shown.number)
        except errors.ProtocolError as error:
            session.heard(error)
            raise
