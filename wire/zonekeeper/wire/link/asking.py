"""The client's half of a Read stream: it matches replies to requests."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import carriers, errors, proofs
from zonekeeper.wire.formats.proofs import ProofAct, Prover


class Asking:
    """The reads of one stream."""

    def __init__(
        self,
        on_pending: Callable[[], None],
        *,
        wire_version: int = 1,
        prover: Prover | None = None,
    ) -> None:
        self._wire_version = wire_version
        #: Proves keys on this stream; None: the bookie has given no nonce.
        self.prover = prover
        #: Called once the stream was left and nothing is asked on it any more.
        self.on_left: Callable[[], None] = _nothing
        self._is_left = False
        #: Called whenever there is a carrier to send.
        self._on_pending = on_pending
        self.alive = True
        self._next_number = 0
        self._pending: deque[carriers.Read] = deque()
        #: An error is a result and not an exception here, because perhaps no caller waits any more.
        self._asked: dict[int, asyncio.Future[carriers.ReadAnswer | errors.ProtocolError]] = {}

    async def ask(self, request: service.ReadRequest) -> service.ReadReply:
        """Send a request and wait for its reply."""
        if not self.alive:
            raise errors.NotConnected("the connection was lost before the read was sent")
        number = self._next_number
        self._next_number += 1
        self._asked[number] = asyncio.get_running_loop().create_future()
        self._pending.append(self._item(number, request))
        self._on_pending()
        try:
            reply = await self._asked[number]
        finally:
            self._asked.pop(number, None)
            self._look_left()
        if isinstance(reply, errors.ProtocolError):
            raise reply
        _check(request, reply)
        return service.ReadReply(
            frames=reply.frames,
            next_entry_id=reply.next_entry,
            last_add_confirmed=reply.last_add_confirmed,
        )

    def next_carrier(self) -> bytes | None:
        """Give the next carrier, if any; requests whose caller has gone are not sent."""
        pending, items = self._pending, list[carriers.Item]()
        while pending and len(items) < carriers.ITEMS_MAX:
            read = pending.popleft()
            if read.number in self._asked:
                items.append(read)
        return carriers.build(items, self._wire_version) if items else None

    def received(self, items: Iterable[carriers.Item]) -> None:
        """Take the items of a carrier that came from the bookie."""
        for item in items:
            match item:
                case carriers.ReadAnswer(number=number):
                    self._answer(number, item)
                case carriers.Refused(number=number, code=code, detail=detail):
                    self._answer(number, errors.from_number(code, detail))
                case _:
                    raise errors.BadRequest(f"the bookie sent {item} on a Read stream")

    def lost(self, error: errors.ProtocolError) -> None:
        """Fail all reads: the stream is gone."""
        self.alive = False
        for number in list(self._asked):
            self._answer(number, errors.ConnectionLost(f"the connection ended: {error}"))

    def leave(self) -> None:
        """End the stream once nothing is asked on it."""
        self._is_left = True
        self._look_left()

    def _item(self, number: int, request: service.ReadRequest) -> carriers.Read:
        fences = request.fence_key is not None
        key = request.fence_key if fences else request.key
        assert key is None or isinstance(key, bytes), "a caller of a link shows the key itself"
        proof = None
        if self.prover is not None and key is not None and proofs.needed(key):
            act = ProofAct.FENCE if fences else ProofAct.READ
            proof = self.prover.on_stream(act, key, request.ledger_id)
        return carriers.Read(
            number=number,
            ledger_id=request.ledger_id,
            first=request.first_entry_id,
            last=request.last_entry_id,
            step=request.step,
            max_bytes=request.bytes_max,
            # A plain read never shows the key itself.
            fence_key=key if fences and proof is None else None,
            create_token=request.create_token,
            proof=proof,
            fences=fences and proof is not None,
        )

    def _look_left(self) -> None:
        if self._is_left and self.alive and not self._asked:
            self.alive = False
            self.on_left()

    def _answer(self, number: int, reply: carriers.ReadAnswer | errors.ProtocolError) -> None:
        """Give a reply to the caller; a caller that has gone (timeout, cancelled) needs none."""
        asked = self._asked.pop(number, None)
        if asked is not None and not asked.done():
            asked.set_result(reply)


def _nothing() -> None:
    """Stand where nobody waits for the end of a stream that was left."""


def _check(request: service.ReadRequest, reply: carriers.ReadAnswer) -> None:
    """Raise BadRequest for a reply that does not fit its request: it proves nothing."""
    fits = reply.next_entry > request.first_entry_id
    if reply.frames:  # the parser has checked their order, and that they are of one ledger
        fits &= reply.frames[0].ledger_id == request.ledger_id
        fits &= reply.frames[0].first >= request.first_entry_id
        fits &= reply.frames[-1].last <= request.last_entry_id
    if not fits:
        raise errors.BadRequest(
            f"ledger {request.ledger_id}: the bookie's reply does not fit the entries "
            f"{request.first_entry_id}..{request.last_entry_id} that were asked for"
        )
