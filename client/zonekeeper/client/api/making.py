"""A writer or a reader that is being made: awaited for the object, or entered by ``async with``.

``client.create()`` and ``client.open()`` give a ``Making``. Both forms are the same work::

    writer = await client.create()
    async with client.create() as writer: ...

A ``Making`` is a coroutine with a second way to use it. So it works once, tasks take it, and Python
warns of one that was never awaited. Nothing is begun before it is awaited or entered.
"""

from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Protocol, Self, TypeVar


class _Entered(Protocol):
    """An object with a block."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


Made_co = TypeVar("Made_co", bound=_Entered, covariant=True)


class Making(Coroutine[None, None, Made_co]):
    """The work that makes an object. ``await`` gives the object, ``async with`` enters it."""

    __slots__ = ("_made", "_work")

    def __init__(self, work: Coroutine[None, None, Made_co]) -> None:
        self._work = work
        self._made: list[Made_co] = []

    def __await__(self) -> Generator[None, None, Made_co]:
        return self._work.__await__()

    def send(self, value: None, /) -> None:
        """Go on with the work, as tasks do."""
        return self._work.send(value)

    def throw(
        self,
        typ: BaseException | type[BaseException],
        val: object = None,
        tb: TracebackType | None = None,
        /,
    ) -> None:
        """Raise an error in the work, as tasks do for a cancellation."""
        raised = typ if isinstance(typ, BaseException) else _error(typ, val)
        return self._work.throw(raised if tb is None else raised.with_traceback(tb))

    def close(self) -> None:
        """Give the work up, without a warning if it was never awaited."""
        self._work.close()

    async def __aenter__(self) -> Made_co:
        made = await (await self._work).__aenter__()
        self._made.append(made)
        return made

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._made.pop().__aexit__(kind, error, trace)


def _error(kind: type[BaseException], value: object) -> BaseException:
    return value if isinstance(value, BaseException) else kind() if value is None else kind(value)
