"""Asks beside the turns which bookies hold something, of those that are not asked for.

For the proof all ledgers are listed, which takes long where there are many. So the listing is a
task of its own, as that of ``ledger_reading`` is: turns go on meanwhile, and the bookies stay until
it has ended. A listing is of one instance; where a turn sees another one, it is given up.
"""

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import TypeAlias

from zonekeeper.operator.roots.followed import Spawn
from zonekeeper.operator.roots.roots import RootFound, Roots
from zonekeeper.operator.sight.holdings import Holdings
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.troubles import Trouble

#: Who is named, and is that all? None: the listing has failed.
_Named: TypeAlias = tuple[frozenset[BookieId], bool] | None

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingsQuestion:
    """A listing that is due, and what was so when it began."""

    address: str
    instance: str
    #: The bookies that it is about.
    beyond: frozenset[BookieId]
    #: Those of them that serve.
    serving: frozenset[BookieId]
    asked_ms: int


async def asked(root: Roots, question: HoldingsQuestion) -> _Named:
    """List the ledgers."""
    try:
        return await root.naming(question.address, question.beyond, instance=question.instance)
    except Trouble as error:
        _logger.warning("the listing for bookies that are not asked for has failed: %s", error)
        return None


def answered(
    known: Holdings, question: HoldingsQuestion, named: _Named, *, now_ms: int
) -> Holdings:
    """Give what is known after a listing."""
    if named is None:
        return replace(known, asked=question.beyond, asked_ms=question.asked_ms)
    found, is_whole = named
    return Holdings(
        asked=question.beyond,
        named=found,
        empty=question.beyond - found if is_whole else frozenset(),
        served=question.serving,
        asked_ms=question.asked_ms,
        proven_ms=now_ms,
    )


class HoldingsReading:
    """The listings of one cluster; at most one runs."""

    def __init__(self, root: Roots, spawn: Spawn) -> None:
        self._root = root
        self._spawn = spawn
        self._question: HoldingsQuestion | None = None
        self._task: asyncio.Task[_Named] | None = None

    def take(self, known: Holdings, found: object, *, now_ms: int) -> Holdings:
        """Give what is known by now; ``found`` is the root as this turn sees it."""
        question, task = self._question, self._task
        if question is None or task is None:
            return known
        if not isinstance(found, RootFound) or found.instance != question.instance:
            self.give_up()
            return known
        if not task.done():
            return known
        self._question = self._task = None
        named = None if task.cancelled() else task.result()
        return answered(known, question, named, now_ms=now_ms)

    def want(self, question: HoldingsQuestion | None) -> None:
        """Begin a listing, unless one runs or none is due."""
        if question is not None and self._task is None:
            self._question = question
            self._task = self._spawn(asked(self._root, question))

    def give_up(self) -> None:
        """End the listing and forget it."""
        if self._task is not None:
            self._task.cancel()
        self._question = self._task = None

    async def wait(self) -> None:
        """Wait until the listing has ended, if one runs."""
        if self._task is not None:
            await asyncio.wait([self._task])
