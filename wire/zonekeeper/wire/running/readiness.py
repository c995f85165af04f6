"""The readiness of a process, in its log: one line when it is lost, and one when it is back.

What is missing follows from many parts of a process, so it is looked at from time to time. A change
that lasts for less than ``LOOK_EVERY_S`` may be missed. A line is written when *which* conditions
are missing changes, and not when only their texts do.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

LOOK_EVERY_S: Final = 1.0

_logger = logging.getLogger(__name__)


class ReadinessLines:
    """Follows what a process misses, and logs the changes."""

    def __init__(self, missing: Callable[[], Mapping[str, str]]) -> None:
        """``missing`` says which conditions are not met, by name; empty: the process is ready."""
        self._missing = missing
        self._told: tuple[str, ...] = ()
        self._since_s = 0.0

    async def run(self) -> None:
        """Look until cancelled; the process is ready, and has said so."""
        while True:
            self.look(asyncio.get_running_loop().time())
            await asyncio.sleep(LOOK_EVERY_S)

    def look(self, now_s: float) -> None:
        """Look once."""
        missing = self._missing()
        names = tuple(sorted(missing))
        if names == self._told:
            return
        if not self._told:
            self._since_s = now_s
        self._told = names
        if missing:
            texts = "; ".join(f"{name}: {missing[name]}" for name in names)
            _logger.warning("not ready: %s", texts, extra={"missing": dict(missing)})
        else:
            lasted_s = now_s - self._since_s
            _logger.info(
                "ready again after %.1f s",
                lasted_s,
                extra={"duration_ms": round(lasted_s * 1_000)},
            )
