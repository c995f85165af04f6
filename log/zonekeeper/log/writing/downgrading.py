"""May the next ledger have less than the log's full quorums? Pure.

Without ``minimum`` never: then consistency goes before availability. With it, only when no ledger
with full quorums could be had for ``downgrade_after_ms``. Each next ledger is tried with full
quorums first, so the log is full again at the first rotation at which it can be.
"""

from typing import Final

from zonekeeper.metadata.formats.log_record import LogRules

#: Where the log's rules do not say it.
DOWNGRADE_AFTER_MS: Final = 60_000


class Downgrading:
    """Since when full quorums cannot be had."""

    def __init__(self) -> None:
        self._short_since_ms: int | None = None

    def full(self) -> None:
        """Note that a ledger with full quorums was made."""
        self._short_since_ms = None

    def may_be_less(self, rules: LogRules, now_ms: int) -> bool:
        """Note that there was none; may the ledger have the minimum?"""
        if self._short_since_ms is None:
            self._short_since_ms = now_ms
        if rules.minimum is None:
            return False
        after_ms = rules.downgrade_after_ms
        lasts_ms = DOWNGRADE_AFTER_MS if after_ms is None else after_ms
        return now_ms - self._short_since_ms >= lasts_ms
