"""What objects of code that cannot await have in common: each stands for an object on the loop."""

from collections.abc import AsyncGenerator, Callable, Generator
from typing import NoReturn, TypeVar

from zonekeeper.client.api.loop_thread import Calls

Item = TypeVar("Item")


class LoopObject:
    """An object that belongs to one process and its loop."""

    def __init__(self, calls: Calls, of: object) -> None:
        self._calls = calls
        #: The object on the loop.
        self._of = of

    def __repr__(self) -> str:
        return f"<blocking {repr(self._of)[1:]}"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a blocking {type(self).__name__} lives in one process: send the address and the "
            "settings, and connect there"
        )


def streamed(
    calls: Calls, begin: Callable[[], AsyncGenerator[Item, None]]
) -> Generator[Item, None, None]:
    """Iterate over a stream that is produced on the loop.

    A half-read stream is closed by the loop once nothing refers to it, like all async generators.
    This function does not wait for that close: the garbage collector may close this generator, in
    any thread.
    """
    stream = begin()

    async def following() -> Item | None:
        return await anext(stream, None)

    while (item := calls.do(following)) is not None:
        yield item
