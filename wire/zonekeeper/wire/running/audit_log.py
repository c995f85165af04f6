"""The audit: one line for each change, each fence and each refusal, with the caller's identity.

A line is one JSON object, of the logger ``zonekeeper.audit``::

    {"operation": "fence", "outcome": "done", "principal": "client/ingest", "peer": "10.0.0.9:4711",
     "ledger": 7}

The same facts are fields of the line in the JSON form of the log (``log_lines.FIELDS``).

The lines of one caller, one operation and one outcome have a limit: ``LINES_MAX`` in ``WINDOW_S``
seconds (``log_limit``). So a caller that is refused a million times does not hide the fence of
another caller. What is left out is counted, and told with a line after the window, or at the end. A
caller without a principal is told apart by its host. There are at most ``CALLERS_MAX`` limits at a
time. All further callers share one.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final

from zonekeeper.wire.running.log_limit import LeftOut, LineLimit, LinePlace

NAME: Final = "zonekeeper.audit"
#: The principal of a caller that has none.
NOBODY: Final = "nobody"
#: The caller, operation and outcome of at most so many lines are told apart within a window.
CALLERS_MAX: Final = 1_000
#: How often windows that are over are looked for.
_LOOK_S: Final = 1.0
_OTHERS: Final = LinePlace(logger="others", path="any", line=0)

_logger = logging.getLogger(NAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """What a caller did, or was refused."""

    operation: str
    outcome: str
    #: ``NOBODY``: it has none.
    principal: str
    #: The address of its side of the connection.
    peer: str
    ledger: int | None = None
    #: Why it was refused, or would be; empty: it was not.
    reason: str = ""


class AuditLog:
    """The audit of one process."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        """``now_s`` gives the wall time."""
        self._now_s = now_s
        self._limit = LineLimit()
        self._looked_s = now_s()

    def tell(self, line: AuditLine) -> None:
        """Write a line, or count it."""
        now_s = self._now_s()
        if not 0 <= now_s - self._looked_s < _LOOK_S:
            self._looked_s = now_s
            for left_out in self._limit.over(now_s):
                _tell_left_out(left_out)
        asker = line.principal
        if asker == NOBODY:
            asker = f"{NOBODY} at {_host(line.peer)}"
        place = LinePlace(logger=asker, path=f"{line.operation}: {line.outcome}", line=0)
        if place not in self._limit and len(self._limit) >= CALLERS_MAX:
            place = _OTHERS
        level = logging.WARNING if line.reason else logging.INFO
        if self._limit.takes(place, level, now_s):
            facts = {name: value for name, value in asdict(line).items() if value not in (None, "")}
            _logger.log(level, "%s", json.dumps(facts), extra=facts)

    def close(self) -> None:
        """Tell what was left out; the process ends."""
        for left_out in self._limit.all():
            _tell_left_out(left_out)


def _tell_left_out(left_out: LeftOut) -> None:
    operation, _, outcome = left_out.place.path.partition(": ")
    facts: dict[str, object] = {
        "operation": operation,
        "outcome": outcome or "any",
        "principal": left_out.place.logger,
        "suppressed": left_out.count,
    }
    _logger.log(left_out.level, "%s", json.dumps(facts), extra=facts)


def _host(peer: str) -> str:
    return peer.rpartition(":")[0] or peer
