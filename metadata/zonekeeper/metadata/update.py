"""Changing one node by compare-and-set: read, decide, write, and read again when it did not work.

The loop turns the three answers of a store into two. A refused write (somebody was faster) is
decided again on what stands there now. A write of unknown outcome is never guessed at: the node is
read again, and what stands there tells.

- The version that we replaced still stands: decide again. The write may even arrive late: of all
  writes that replace one version only one is ever applied.
- The version after it stands: exactly one write made it, and the bytes say whether it is ours.
- It is further on, or is another node by the same name: others have written since, and only the
  writer can recognise his change in what they left. ``applied`` is for that; it looks for a token
  of the writer, say. Without it the answer stays unknown, and the error says so.

``decide`` may be called many times, and must depend on nothing but the state that it is given. What
does no harm when it is done twice needs no token: it passes ``applied=redo``.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias, assert_never

from zonekeeper.metadata import errors
from zonekeeper.metadata.store import (
    Create,
    Delete,
    MetadataStore,
    Put,
    SessionId,
    Versioned,
    Write,
)

#: So many rounds are no contention any more: somebody writes in a loop.
ATTEMPTS_MAX: Final = 1_000

DEADLINE_MS: Final = 30_000

#: Between attempts while the store gives no answer; doubled up to the second figure.
_PAUSE_MS: Final = 20
_PAUSE_MS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Store:
    """Let the node have this value; create it if it is absent (its parent must be there)."""

    value: bytes


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete the node."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Leave it as it is."""


Decision: TypeAlias = Store | Remove | Keep

Decide: TypeAlias = Callable[[Versioned | None], Decision]

#: Is the change whose outcome is unknown in what stands there? Asked only when nothing else tells.
Applied: TypeAlias = Callable[[Versioned | None], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What stands there after an update."""

    value: bytes
    version: int


def redo(_: Versioned | None) -> bool:
    """Answer ``applied`` for a change that does no harm when it is made twice."""
    return False


async def update(
    store: MetadataStore,
    path: str,
    decide: Decide,
    *,
    applied: Applied | None = None,
    deadline_ms: int = DEADLINE_MS,
    session: SessionId | None = None,
) -> Standing | None:
    """Bring a node where ``decide`` wants it; give what stands there then (None: absent).

    With ``session``, nothing is written once that session is over. Raises what ``decide`` raises;
    what reading again cannot cure; and ``StoreUnavailableError`` when time or attempts are used up,
    with ``maybe_applied`` if the outcome of a write is unknown to the end.
    """
    loop = _Loop(store=store, path=path, decide=decide, applied=applied, session=session)
    limit = asyncio.timeout(deadline_ms / 1000)
    try:
        async with limit:
            return await loop.run()
    except errors.StoreError as error:
        # A later attempt was refused; an earlier one of unknown outcome may still be in it.
        error.maybe_applied = error.maybe_applied or bool(loop.doubts)
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
    applied: Applied | None
    session: SessionId | None
    #: What the writes of unknown outcome replace, and their values (None: a removal). Until one
    #: outcome is known, only writes that replace this very state are tried.
    doubted: Versioned | None = None
    doubts: list[bytes | None] = field(default_factory=list)
    pause_ms: int = _PAUSE_MS

    async def run(self) -> Standing | None:
        """Go round until the node stands where it should."""
        sync = False
        for _ in range(ATTEMPTS_MAX):
            try:
                state = await self.store.get(self.path, sync=sync)
                sync = True
                if self.doubts and self._settled(state):
                    return _standing(state)
                write, value = self._write(state, self.decide(state))
                if write is None:
                    return _standing(state)
                if await self._attempt(write, state, value):
                    version = 0 if state is None else state.version + 1
                    return None if value is None else Standing(value=value, version=version)
            except errors.StoreUnavailableError as error:
                if error.maybe_applied:
                    raise  # an outcome that reading cannot tell
                await self._pause()
        raise self.unavailable(f"not done in {ATTEMPTS_MAX} attempts")

    def unavailable(self, problem: str) -> errors.StoreUnavailableError:
        """Give up, and say whether a write may have been applied."""
        return errors.StoreUnavailableError(
            problem, store=self.store.name, path=self.path, maybe_applied=bool(self.doubts)
        )

    async def _pause(self) -> None:
        """Leave a store that gave no answer alone for a while, longer each time."""
        await asyncio.sleep(self.pause_ms / 1000)
        self.pause_ms = min(2 * self.pause_ms, _PAUSE_MS_MAX)

    def _write(
        self, state: Versioned | None, decision: Decision
    ) -> tuple[Write | None, bytes | None]:
        match decision:
            case Store(value):
                if state is None:
                    return Create(path=self.path, value=value), value
                return Put(path=self.path, value=value, version=state.version), value
            case Remove():
                if state is None:
                    return None, None
                return Delete(path=self.path, version=state.version), None
            case Keep():
                return None, None
            case _:
                assert_never(decision)

    async def _attempt(self, write: Write, state: Versioned | None, value: bytes | None) -> bool:
        """Try a write; False: somebody was faster, or its outcome is unknown."""
        # In doubt from here on: a deadline or a cancellation can strike in the middle.
        self.doubted = state
        self.doubts.append(value)
        try:
            await self.store.commit([write], session=self.session)
        except errors.StoreError as error:
            if error.maybe_applied:
                if not error.retryable:
                    raise
                await self._pause()
                return False
            self.doubts.pop()
            if isinstance(error, errors.VersionConflictError | errors.NodeExistsError):
                return False
            if isinstance(error, errors.NoNodeError) and state is not None:
                return False
            if isinstance(error, errors.SessionLostError) and self.session is None:
                return False
            raise
        self.doubts.clear()
        return True

    def _settled(self, state: Versioned | None) -> bool:
        """Tell from what stands there whether a doubted write is in it."""
        if self._unchanged(state):
            return False
        known = self._made_by_us(state)
        if known is None:
            if self.applied is None:
                raise self.unavailable("others have written since, and nothing tells our write")
            known = self.applied(state)
        # Whatever was not applied by now never will be: the version it replaces is used up.
        self.doubts.clear()
        return known

    def _unchanged(self, state: Versioned | None) -> bool:
        if state is None or self.doubted is None:
            return state is self.doubted
        return (state.created_id, state.version) == (self.doubted.created_id, self.doubted.version)

    def _made_by_us(self, state: Versioned | None) -> bool | None:
        """Compare what stands there with what we wrote; None: that does not tell."""
        before = self.doubted
        if state is None:
            return None if any(doubt is not None for doubt in self.doubts) else True
        if before is None:
            return True if state.version == 0 and state.value in self.doubts else None
        if state.created_id != before.created_id:
            return None
        if state.version == before.version + 1:
            return state.value in self.doubts
        return None if any(doubt is not None for doubt in self.doubts) else False


def _standing(state: Versioned | None) -> Standing | None:
    return None if state is None else Standing(value=state.value, version=state.version)
