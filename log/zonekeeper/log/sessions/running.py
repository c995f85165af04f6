"""One ledger while a log's writer writes it, with the time of its rotation."""

import asyncio
from typing import Final

from zonekeeper.client.api.writer import Writer
from zonekeeper.log.writing.lagging import Lagging
from zonekeeper.log.writing.tally import LedgerTally
from zonekeeper.metadata.formats.log_record import LogRules
from zonekeeper.placement.base.ids import LedgerId

_MS: Final = 1_000


class RunningLedger:
    """A ledger that takes a log's batches."""

    def __init__(self, writer: Writer, tally: LedgerTally, rules: LogRules) -> None:
        self.writer = writer
        self.tally = tally
        self.rules = rules
        self._loop = asyncio.get_running_loop()
        #: When it is old enough for a rotation, by the loop's clock.
        self.old_s = self._loop.time() + rules.rotate_after_ms / _MS
        #: Nothing more is sent to it.
        self.sealed = False
        self.lagging = Lagging(rules)
        #: A member of it lags, and no other bookie has taken its place.
        self.lags = False

    @property
    def id(self) -> LedgerId:
        """The ledger's id."""
        return self.writer.ledger_id

    @property
    def is_full(self) -> bool:
        """Is it time to rotate?"""
        is_old = self.lags or self._loop.time() >= self.old_s
        return self.tally.is_full(self.rules, is_old=is_old)
