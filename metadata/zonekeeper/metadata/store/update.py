"""Changing one node by compare-and-set: read, decide, write, and do it again if that failed.

If a write is refused because another client was faster, ``decide`` is called again with the present
state. The same happens after a write of unknown outcome; nothing is guessed. The present state may
be the work of that write, or of another client that wrote the same bytes, or of a client that has
written over it. These cases cannot be told apart, and need not be. While the node still has the
version that was to be replaced, only one of all writes that replace it is ever applied. Once it has
another version, the unknown write can no longer be applied. (Not promised: if a node is removed and
made again while a write to it is under way, the new node may get that write.)

A change may hang on other nodes. Then ``alongside`` reads them before each attempt to write, and
gives checks of the versions that it read. They go into the transaction of the write: it is not
applied once one of those nodes has changed, however long the request was on its way. Then all is
read again. ``alongside`` raises if the change may not be made any more.

So ``decide`` may be called many times, and may be given the result of its own change. It must
depend on nothing but the given state. And it must either recognise its own change (by a token of
the writer, for example), or do no harm when it makes the change again: a counter may be increased
twice, for example.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from zonekeeper.metadata.store import errors
from zonekeeper.metadata.store.store import (
    Check,
    Create,
    Delete,
    MetadataStore,
    Put,
    SessionId,
    Versioned,
    Write,
)

#: After this many attempts it is not contention: some client writes in a loop.
ATTEMPTS_MAX: Final = 1_000

DEADLINE_MS: Final = 30_000

#: The pause between attempts while the store gives no answer; doubled, up to the second number.
_PAUSE_MS: Final = 20
_PAUSE_MS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Store:
    """Give the node this value; create it if it is absent (its parent must exist).

    ``also`` is written before it, in the same transaction: other nodes that change with this one.
    """

    value: bytes
    also: Sequence[Write] = ()


@dataclass(frozen=True, slots=True)
class RemoveNode:
    """Delete the node; ``also`` is written before it, in the same transaction."""

    also: Sequence[Write] = ()


@dataclass(frozen=True, slots=True)
class Keep:
    """Leave the node as it is."""


Decision: TypeAlias = Store | RemoveNode | Keep

Decide: TypeAlias = Callable[[Versioned | None], Decision]
Alongside: TypeAlias = Callable[[], Awaitable[Sequence[Check]]]


async def nothing() -> Sequence[Check]:
    """Let a change hang on no other node."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The node after an update."""

    value: bytes
    version: int


async def update(
    store: MetadataStore,
    path: str,
    decide: Decide,
    *,
    deadline_ms: int = DEADLINE_MS,
    session: SessionId | None = None,
    alongside: Alongside = nothing,
) -> Standing | None:
    """Change a node as ``decide`` wants; give the node afterwards (None: absent).

    With ``session``, nothing is written once that session is over. Raises the errors of ``decide``,
    and store errors that another attempt cannot cure. Raises ``StoreUnavailableError`` when time or
    attempts are used up, with ``maybe_applied`` if the outcome of some write stayed unknown.
    """
    loop = _Loop(store=store, path=path, decide=decide, session=session, alongside=alongside)
    limit = asyncio.timeout(deadline_ms / 1000)
    try:
        async with limit:
            return await loop.run()
    except errors.StoreError as error:
        # This attempt was refused; but an earlier one of unknown outcome may have been applied.
        error.maybe_applied = error.maybe_applied or loop.in_doubt
        raise
    except TimeoutError as late:
        if not limit.expired():
            raise
        raise loop.unavailable(f"not done within {deadline_ms} ms") from late


@dataclass(slots=True, kw_only=True)
class _Loop:
    store: MetadataStore
    path: str
    decide: Decide
    session: SessionId | None
    alongside: Alongside
    #: The outcome of some write is unknown.
    in_doubt: bool = False
    pause_ms: int = _PAUSE_MS

    async def run(self) -> Standing | None:
        """Try until the node is as ``decide`` wants it."""
        sync = False
        for _ in range(ATTEMPTS_MAX):
            try:
                state = await self.store.get(self.path, sync=sync)
                sync = True
                writes, value = self._writes(state, self.decide(state))
                if not writes:
                    return _standing(state)
                if await self._attempt([*await self.alongside(), *writes], state):
                    version = 0 if state is None else state.version + 1
                    return None if value is None else Standing(value=value, version=version)
            except errors.StoreUnavailableError:
                await self._pause()
        raise self.unavailable(f"not done in {ATTEMPTS_MAX} attempts")

    def unavailable(self, problem: str) -> errors.StoreUnavailableError:
        """Give the error for giving up; it says whether a write may have been applied."""
        return errors.StoreUnavailableError(
            problem, store=self.store.name, path=self.path, maybe_applied=self.in_doubt
        )

    async def _pause(self) -> None:
        """Wait before the next request to a store that gave no answer, longer each time."""
        await asyncio.sleep(self.pause_ms / 1000)
        self.pause_ms = min(2 * self.pause_ms, _PAUSE_MS_MAX)

    def _writes(
        self, state: Versioned | None, decision: Decision
    ) -> tuple[Sequence[Write], bytes | None]:
        match decision:
            case Store(value, also):
                if state is None:
                    return [*also, Create(path=self.path, value=value)], value
                return [*also, Put(path=self.path, value=value, version=state.version)], value
            case RemoveNode(also):
                if state is None:
                    return [], None
                return [*also, Delete(path=self.path, version=state.version)], None
            case Keep():
                return [], None
            case _:
                assert_never(decision)

    async def _attempt(self, writes: Sequence[Write], state: Versioned | None) -> bool:
        """Try to write; False if another client was faster, or the outcome is unknown."""
        # The outcome is unknown from here on: a deadline or a cancellation can come in the middle.
        was_in_doubt, self.in_doubt = self.in_doubt, True
        try:
            await self.store.commit(writes, session=self.session)
        except errors.StoreError as error:
            if error.maybe_applied:
                if not error.retryable:
                    raise
                await self._pause()
                return False
            self.in_doubt = was_in_doubt
            if isinstance(error, errors.VersionConflictError | errors.NodeExistsError):
                return False
            if isinstance(error, errors.NoNodeError) and (state is not None or len(writes) > 1):
                return False
            if isinstance(error, errors.SessionLostError) and self.session is None:
                return False
            raise
        return True


def _standing(state: Versioned | None) -> Standing | None:
    return None if state is None else Standing(value=state.value, version=state.version)
