"""Watches as streams of states, made from reads and one-shot notices.

A store offers a read that arms a notice. The notice is called on the loop, at least once, after the
state differs from the result of the read; it may also be called without a change. ``follow`` reads,
gives the state if it is new, waits for the notice, and reads again. So nothing is queued, states in
between are skipped, and the last state cannot be missed. The read promises never to go back.
"""

import asyncio
import enum
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Final, TypeAlias, TypeVar

from zonekeeper.metadata.store import errors
from zonekeeper.metadata.store.store import Session

State = TypeVar("State")

Notice: TypeAlias = Callable[[], None]


class Watched(enum.Enum):
    """The part of a node that is watched."""

    NODE = "node"
    CHILDREN = "children"


Key: TypeAlias = tuple[Watched, str]

#: The pause of a stream before it asks a store again that gave no answer.
_RETRY_DELAY_MS: Final = 200

_NOTHING: Final = object()

_logger = logging.getLogger(__name__)


class Notices:
    """The armed notices, by key. A notice is one-shot: to call it disarms it."""

    def __init__(self) -> None:
        # Dictionaries as ordered sets, so that the order of calls is the same in every run.
        self._armed: dict[Key, dict[Notice, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._armed)

    def __contains__(self, key: Key) -> bool:
        return key in self._armed

    def arm(self, key: Key, notice: Notice) -> None:
        """Have ``notice`` called at the next change of ``key``."""
        self._armed.setdefault(key, {})[notice] = None

    def disarm(self, key: Key, notice: Notice) -> None:
        """Forget a notice, if it is armed."""
        waiting = self._armed.get(key, {})
        waiting.pop(notice, None)
        if not waiting:
            self._armed.pop(key, None)

    def tell(self, key: Key) -> None:
        """Call and disarm the notices of one key."""
        for notice in self._armed.pop(key, ()):
            notice()

    def tell_all(self) -> None:
        """Call and disarm every notice: something changed, and it is not known what."""
        for key in tuple(self._armed):
            self.tell(key)


class SessionFeed:
    """The session as it is known, and the streams that follow it.

    The log has one line when a connection is lost, and one when there is a session again.
    """

    def __init__(self, store: str, session: Session) -> None:
        self.current = session
        #: The last session that there was.
        self._last = session.id
        #: Since when there is no session that is connected; None: there is one, or was none yet.
        self._away_s: float | None = None
        self._store = store
        self._closed = False
        self._waiting: dict[Notice, None] = {}

    def publish(self, session: Session) -> None:
        """Set the present knowledge of the session."""
        if session != self.current:
            self._log(session)
            self.current = session
            self._tell()

    def close(self) -> None:
        """End every stream: the store is closed, and its session with it."""
        self._closed = True
        self.current = Session(id=None, connected=False)
        self._tell()

    def watch(self) -> AbstractAsyncContextManager[AsyncIterator[Session]]:
        """Follow the session."""

        async def read(notice: Notice) -> Session:
            if self._closed:
                raise errors.StoreClosedError("is closed", store=self._store)
            self._waiting[notice] = None
            return self.current

        return follow(read, lambda notice: self._waiting.pop(notice, None))

    def _log(self, session: Session) -> None:
        now_s = asyncio.get_running_loop().time()
        if session.id is None or not session.connected:
            if self.current.id is not None and self.current.connected:
                self._away_s = now_s
                if not session.connected:
                    _logger.warning("%s: the connection is lost; connecting again", self._store)
            return
        away_s = 0.0 if self._away_s is None else now_s - self._away_s
        facts = {"duration_ms": round(away_s * 1_000), "same_session": session.id == self._last}
        if self._last is not None and session.id != self._last:
            _logger.warning(
                "%s: the session was lost, and its ephemeral nodes with it; a new session has "
                "begun after %.1f s",
                self._store,
                away_s,
                extra=facts,
            )
        elif self._away_s is not None:
            _logger.info(
                "%s: connected again after %.1f s, in the same session",
                self._store,
                away_s,
                extra=facts,
            )
        self._last, self._away_s = session.id, None

    def _tell(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for notice in waiting:
            notice()


def follow(
    read: Callable[[Notice], Awaitable[State]], disarm: Callable[[Notice], object]
) -> AbstractAsyncContextManager[AsyncIterator[State]]:
    """Give the stream of the states of ``read``; the end of the block disarms its notice."""
    return aclosing(_states(read, disarm))


async def _states(
    read: Callable[[Notice], Awaitable[State]], disarm: Callable[[Notice], object]
) -> AsyncGenerator[State, None]:
    changed = asyncio.Event()
    last: object = _NOTHING
    try:
        while True:
            changed.clear()
            try:
                state = await read(changed.set)
            except (errors.StoreUnavailableError, errors.SessionLostError):
                await asyncio.sleep(_RETRY_DELAY_MS / 1000)
                continue
            if state != last:
                last = state
                yield state
            await changed.wait()
    finally:
        disarm(changed.set)
