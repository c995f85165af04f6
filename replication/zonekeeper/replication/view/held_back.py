"""What keeps bookies from collecting, for people: two alerts that autorecovery shows.

    restored             the metadata was set back or imported: no bookie collects (a page)
    collectionsWaiting   bookies ask a person before they collect many ledgers (a warning)

A mark or a question that cannot be read counts as one that stands. The alerts come from the store,
so every process shows them. A line of the log is for a change. A text names at most ``NAMED_MAX``
causes, as each of many bookies adds some, and each time there is a line.
"""

import logging
from collections.abc import Mapping

from zonekeeper.metadata.bookies import held_collections
from zonekeeper.metadata.bookies.held_collections import HeldCollection
from zonekeeper.metadata.cluster import restored
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.restored import Restored
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.store.background import together
from zonekeeper.placement.zones.zone_effects import Severity

RESTORED = "restored"
WAITING = "collectionsWaiting"
SEVERITIES: Mapping[str, Severity] = {RESTORED: Severity.PAGE, WAITING: Severity.WARNING}

#: A text names at most so many causes. The commands that the runbooks name show all.
NAMED_MAX = 8

_logger = logging.getLogger(__name__)


async def standing(cluster: Cluster) -> dict[str, str]:
    """Give the alerts that stand now, and the text of each."""
    async with restored.watch(cluster) as marks, held_collections.watch_all(cluster) as questions:
        found = {
            RESTORED: _of_mark(await anext(marks)),
            WAITING: _of_questions(await anext(questions)),
        }
    return {alert: text for alert, text in found.items() if text is not None}


class HeldBack:
    """Follows the mark of a restored root, and the questions of bookies."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        #: The alerts that stand, and the text of each.
        self.alerts: dict[str, str] = {}

    async def follow(self) -> None:
        """Follow both until cancelled."""
        await together([self._follow_mark(), self._follow_questions()])

    async def _follow_mark(self) -> None:
        async with restored.watch(self._cluster) as states:
            async for mark in states:
                self._tell(RESTORED, _of_mark(mark))

    async def _follow_questions(self) -> None:
        async with held_collections.watch_all(self._cluster) as states:
            async for asked in states:
                self._tell(WAITING, _of_questions(asked))

    def _tell(self, alert: str, text: str | None) -> None:
        if text is None:
            if self.alerts.pop(alert, None) is not None:
                _logger.info("cluster: %s is over", alert)
        elif self.alerts.get(alert) != text:
            self.alerts[alert] = text
            level = logging.ERROR if SEVERITIES[alert] is Severity.PAGE else logging.WARNING
            _logger.log(level, "cluster: %s: %s", alert, text)


def _of_mark(mark: Restored | UnreadableError | None) -> str | None:
    match mark:
        case None:
            return None
        case UnreadableError():
            return f"no bookie collects, because the mark cannot be read: {mark}"
        case Restored():
            causes = list(map(str, mark.evidence))
            if mark.export:
                causes.insert(0, f"the export {mark.export} was imported")
            return (
                "the metadata was restored to an older state, and no bookie collects until a "
                f"person clears the mark: {_named(causes)}"
            )


def _of_questions(asked: Mapping[str, HeldCollection | UnreadableError]) -> str | None:
    waiting = [
        f"{bookie} for {one.ledgers} of {one.known} ledgers"
        if isinstance(one, HeldCollection)
        else f"{bookie}, whose question cannot be read"
        for bookie, one in sorted(asked.items())
        if isinstance(one, UnreadableError) or one.permit is None
    ]
    if not waiting:
        return None
    return (
        "many ledgers are gone without a record of their deletion, and wait for a person before "
        f"they are collected: {_named(waiting)}"
    )


def _named(causes: list[str]) -> str:
    more = len(causes) - NAMED_MAX
    return "; ".join([*causes[:NAMED_MAX], *([f"and {more} more"] if more > 0 else [])])
