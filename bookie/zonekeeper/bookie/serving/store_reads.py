"""The reads of the metadata store that peers cause: bounded, so that no peer floods the store.

A bookie reads metadata before it takes in a ledger that it does not know, and before it ends a
limbo. Peers ask for both, and so may strangers. Five rules bound the reads:

* At most ``AT_ONCE`` are under way, and at most ``WAITING_MAX`` wait, for requests that take at
  most ``WAITING_BYTES_MAX``. Peers take turns.
* A peer whose last read found nothing is a *stranger*, until one of its reads finds something.
  Strangers have a way of their own: one read at a time, and one in ``STRANGERS_EVERY_MS``. So they
  do not delay the others. If too many reads wait, the newest ones of strangers are refused.
* Of one stranger no more reads wait than may begin before they are given up (``STRANGERS_MAX``).
* A read that has no answer in time is given up, and raises ``MetadataAway``.
* No answer is kept or shared. A ledger may be created while its absence is being read, so what an
  earlier read found says nothing to a later request.

A request that waits is two callbacks, and no task: ten thousand tasks that end in one moment hold
up the event loop for seconds.

Not promised: a peer that opens stream after stream is no stranger at first on each of them. Then
``AT_ONCE`` alone bounds its reads.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, TypeVar
from weakref import WeakSet

from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.formats import errors

T = TypeVar("T")

AT_ONCE: Final = 32
WAITING_MAX: Final = 16_384
#: The memory of the requests whose reads wait, as their callers say (``size_bytes``).
WAITING_BYTES_MAX: Final = 64 << 20
STRANGERS_EVERY_MS: Final = 20
#: The longest time that a read waits for its turn, and then for its answer.
TURN_TIMEOUT_MS: Final = 10_000
ANSWER_TIMEOUT_MS: Final = 5_000
#: The most reads of one stranger that wait.
STRANGERS_MAX: Final = TURN_TIMEOUT_MS // STRANGERS_EVERY_MS


class Peer:
    """The one that causes reads, where a request does not say on which stream it came."""


#: What a caller of ``enter`` is told, once: that its turn has come, or why it does not come.
OnTurn: TypeAlias = Callable[["StoreTurn"], None]
OnRefusal: TypeAlias = Callable[[errors.ProtocolError], None]


class StoreTurn:
    """One read, from its request to its end."""

    __slots__ = ("given", "has_begun", "is_strangers", "peer", "refused", "size_bytes", "timer")

    def __init__(self, peer: object, size_bytes: int, given: OnTurn, refused: OnRefusal) -> None:
        self.peer = peer
        self.size_bytes = size_bytes
        self.given = given
        self.refused = refused
        #: Gives up the wait for the turn.
        self.timer: asyncio.TimerHandle | None = None
        self.has_begun = False
        self.is_strangers = False


class _Queue:
    """Turns that wait, by peer, each peer's in the order in which they came."""

    def __init__(self) -> None:
        self._by_peer: OrderedDict[object, dict[StoreTurn, None]] = OrderedDict()
        self._count = 0
        self.size_bytes = 0

    def __len__(self) -> int:
        return self._count

    def of(self, peer: object) -> int:
        """Give the number of turns of a peer."""
        return len(self._by_peer.get(peer, ()))

    def add(self, turn: StoreTurn) -> None:
        self._by_peer.setdefault(turn.peer, {})[turn] = None
        self._count += 1
        self.size_bytes += turn.size_bytes

    def first(self) -> StoreTurn:
        """Take the oldest turn of the peer whose turn it is; the other peers come next."""
        turn = next(iter(next(iter(self._by_peer.values()))))
        self.drop(turn)
        if turn.peer in self._by_peer:
            self._by_peer.move_to_end(turn.peer)
        return turn

    def newest(self, peer: object | None = None) -> StoreTurn:
        """Take the newest turn of a peer, by default of the one whose turn is last."""
        turn = next(reversed(self._by_peer[peer or next(reversed(self._by_peer))]))
        self.drop(turn)
        return turn

    def drop(self, turn: StoreTurn) -> None:
        """Take out a turn, if it is here."""
        turns = self._by_peer.get(turn.peer, {})
        if turn in turns:
            del turns[turn]
            self._count -= 1
            self.size_bytes -= turn.size_bytes
            if not turns:
                del self._by_peer[turn.peer]

    def move(self, peer: object, to: "_Queue") -> None:
        """Move the turns of a peer to another queue."""
        for turn in tuple(self._by_peer.get(peer, {})):
            self.drop(turn)
            to.add(turn)


class StoreReads:
    """The reads of one bookie; on an event loop."""

    def __init__(self, bookie: BookieId) -> None:
        self._bookie = bookie
        #: The number of reads that are under way.
        self.under_way = 0
        self._known, self._strange = _Queue(), _Queue()
        self._strangers: WeakSet[object] = WeakSet()
        #: Is a stranger's read under way? And when may the next one begin?
        self._serves_stranger = False
        self._strangers_due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    @property
    def waiting(self) -> int:
        """The number of reads that wait for their turn."""
        return len(self._known) + len(self._strange)

    @property
    def waiting_bytes(self) -> int:
        """The memory of the requests whose reads wait."""
        return self._known.size_bytes + self._strange.size_bytes

    async def read(
        self, peer: object, ask: Callable[[], Awaitable[T]], *, found: Callable[[T], bool]
    ) -> T:
        """Ask the store for a peer, in its turn; ``found`` says that the peer is no stranger.

        Raises ``TooManyRequests``, ``ShuttingDown``, ``MetadataAway``, or what ``ask`` raises.
        """
        given: asyncio.Future[StoreTurn] = asyncio.get_running_loop().create_future()

        # Either may come in the moment in which the caller is cancelled.
        def begin(turn: StoreTurn) -> None:
            if not given.done():
                given.set_result(turn)

        def refuse(error: errors.ProtocolError) -> None:
            if not given.done():
                given.set_exception(error)
                given.exception()  # a caller that is cancelled does not look

        turn = self.enter(peer, begin, refuse)
        try:
            await given
        except asyncio.CancelledError:
            self._leave(turn)
            raise
        return await self.answer(turn, ask, found=found)

    def enter(
        self, peer: object, given: OnTurn, refused: OnRefusal, *, size_bytes: int = 0
    ) -> StoreTurn:
        """Wait for a turn from now on; raises ``TooManyRequests`` or ``ShuttingDown``.

        Either ``given`` is called, perhaps within this call, and its caller goes on with
        ``answer``; or ``refused`` is, later. Until then the request takes ``size_bytes`` of memory.
        """
        if self._ended:
            raise self._stopping()
        is_stranger = peer in self._strangers
        if is_stranger and self._strange.of(peer) >= STRANGERS_MAX:
            raise self._too_many()
        while self.waiting >= WAITING_MAX or self.waiting_bytes + size_bytes > WAITING_BYTES_MAX:
            if is_stranger or not self._strange:
                raise self._too_many()
            _refuse(self._strange.newest(), self._too_many())
        turn = StoreTurn(peer, size_bytes, given, refused)
        loop = asyncio.get_running_loop()
        turn.timer = loop.call_later(TURN_TIMEOUT_MS / 1_000, self._give_up, turn)
        (self._strange if is_stranger else self._known).add(turn)
        self._begin_some()
        return turn

    async def answer(
        self, turn: StoreTurn, ask: Callable[[], Awaitable[T]], *, found: Callable[[T], bool]
    ) -> T:
        """Ask the store in a turn that was given; see ``read``."""
        try:
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT_MS / 1_000):
                    answer = await ask()
            except TimeoutError as error:
                raise errors.MetadataAway(
                    f"{self._bookie}: the metadata store gave no answer within "
                    f"{ANSWER_TIMEOUT_MS} ms"
                ) from error
            self._judge(turn.peer, is_known=found(answer))
            return answer
        finally:
            self._leave(turn)

    def end(self) -> None:
        """Refuse the reads that wait, and all further ones: the bookie is stopping."""
        self._ended = True
        for queue in (self._known, self._strange):
            while queue:
                _refuse(queue.first(), self._stopping())

    def _leave(self, turn: StoreTurn) -> None:
        if not turn.has_begun:
            self._drop(turn)
            return
        self.under_way -= 1
        if turn.is_strangers:
            self._serves_stranger = False
        self._begin_some()

    def _drop(self, turn: StoreTurn) -> None:
        """Take a turn out that waits; its caller is told nothing."""
        self._known.drop(turn)
        self._strange.drop(turn)
        _settle(turn)

    def _give_up(self, turn: StoreTurn) -> None:
        refused = turn.refused
        self._drop(turn)
        refused(self._too_many())

    def _begin_some(self) -> None:
        """Begin the reads whose turn it is."""
        while self._known and self.under_way < AT_ONCE:
            self._begin(self._known.first())
        if not self._strange or self._serves_stranger or self.under_way > AT_ONCE:
            return
        loop = asyncio.get_running_loop()
        if loop.time() >= self._strangers_due_s:
            self._strangers_due_s = loop.time() + STRANGERS_EVERY_MS / 1_000
            turn = self._strange.first()
            self._serves_stranger = turn.is_strangers = True
            self._begin(turn)
        elif self._timer is None:
            self._timer = loop.call_at(self._strangers_due_s, self._strangers_are_due)

    def _strangers_are_due(self) -> None:
        self._timer = None
        self._begin_some()

    def _begin(self, turn: StoreTurn) -> None:
        self.under_way += 1
        turn.has_begun = True
        given = turn.given
        _settle(turn)
        given(turn)

    def _judge(self, peer: object, *, is_known: bool) -> None:
        if is_known == (peer not in self._strangers):
            return
        if is_known:
            self._strangers.discard(peer)
            self._strange.move(peer, self._known)
        else:
            self._strangers.add(peer)
            self._known.move(peer, self._strange)
            if self._strange.of(peer) > STRANGERS_MAX:
                error = self._too_many()
                while self._strange.of(peer) > STRANGERS_MAX:
                    _refuse(self._strange.newest(peer), error)

    def _too_many(self) -> errors.TooManyRequests:
        return errors.TooManyRequests(
            f"{self._bookie}: {self.waiting} requests of {self.waiting_bytes} bytes wait until it "
            f"has read the metadata of ledgers that it does not know; at most {WAITING_MAX} of "
            f"{WAITING_BYTES_MAX} bytes may, for {TURN_TIMEOUT_MS} ms, and {STRANGERS_MAX} of a "
            "peer whose last ledger was not there"
        )

    def _stopping(self) -> errors.ShuttingDown:
        return errors.ShuttingDown(f"{self._bookie} is stopping; go to another bookie")


def _refuse(turn: StoreTurn, error: errors.ProtocolError) -> None:
    """Refuse a turn that was taken out of its queue."""
    refused = turn.refused
    _settle(turn)
    refused(error)


def _settle(turn: StoreTurn) -> None:
    """Let go of what a turn that does not wait any more would be told; that may be large."""
    turn.given, turn.refused = _nothing, _nothing
    if turn.timer is not None:
        turn.timer.cancel()


def _nothing(_: object) -> None:
    """Do nothing: the turn does not wait any more."""
