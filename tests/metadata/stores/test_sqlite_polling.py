"""How the SQLite store notices what other processes commit: no change falls between two looks."""

import asyncio
from collections.abc import Callable, Sequence

from tests.support import playing, virtual_time
from zonekeeper.metadata.store import errors
from zonekeeper.metadata.store.watching import Watched
from zonekeeper.metadata.stores.sqlite_file import Stamp
from zonekeeper.metadata.stores.sqlite_polling import Poller, Sight

_NOW = Stamp(created_id=1, modified_id=1, children_id=0)
_LATER = Stamp(created_id=1, modified_id=2, children_id=0)


class Looks:
    """The looks that a poller asks for, answered by hand."""

    def __init__(self) -> None:
        self.asked: list[tuple[int | None, asyncio.Future[Sight]]] = []

    def __call__(self, known: int | None, _: Sequence[str]) -> "asyncio.Future[Sight]":
        self.asked.append((known, asyncio.get_running_loop().create_future()))
        return self.asked[-1][1]

    def answer(self, number: int, version: int, **stamps: Stamp) -> None:
        """See a version, and stamps unless that is the version that was known."""
        known, look = self.asked[number]
        seen = {} if known == version else {f"/{name}": stamp for name, stamp in stamps.items()}
        look.set_result(Sight(version=version, stamps=seen, overdue=False))


async def _at_the_second_look(rest: Callable[[Looks], playing.Played]) -> None:
    """Arm ``/a`` while the first look is under way; then its change must be told."""
    looks, told = Looks(), asyncio.Event()
    poller = Poller(asyncio.get_running_loop(), looks, lambda: None)
    poller.arm((Watched.NODE, "/other"), lambda: None, _NOW)
    await asyncio.sleep(1)
    poller.arm((Watched.NODE, "/a"), told.set, _NOW)
    looks.answer(0, 7, other=_NOW)
    await asyncio.sleep(1)
    await rest(looks)
    await asyncio.sleep(0)
    assert told.is_set()
    poller.close()


def _play(rest: Callable[[Looks], playing.Played]) -> None:
    virtual_time.run(_at_the_second_look(rest))


_at_the_second = playing.by(_play)


@_at_the_second()
async def test_what_is_armed_while_a_look_is_under_way_is_compared_by_the_next(
    looks: Looks,
) -> None:
    """Read, then a change, then a look that did not know of it: the change must not be missed."""
    looks.answer(1, 7, other=_NOW, a=_LATER)


@_at_the_second()
async def test_what_a_failed_look_was_to_compare_is_compared_by_the_next(looks: Looks) -> None:
    """The look that follows finds the version that was known, and must compare all the same."""
    looks.asked[1][1].set_exception(errors.StoreUnavailableError("busy", store="sqlite"))
    await asyncio.sleep(1)
    looks.answer(2, 7, other=_NOW, a=_LATER)
