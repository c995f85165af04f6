"""The log of a Python worker, if its environment asks for it.

A worker is Spark's process, and Spark shows of its log what is a warning or worse. What tasks say
of themselves, such as how many bytes they have read beyond their zone, is less. With
``ZONEKEEPER_LOG_LEVEL`` in the environment of the executors our own loggers write to the worker's
standard error from that level on; Spark takes it into the log of the executor. Without the variable
nothing is set up. A level that does not exist is a warning, and no task fails because of it.
"""

import logging
import sys
from collections.abc import Mapping
from typing import TextIO

from zonekeeper.wire.running import logs
from zonekeeper.wire.running.log_lines import TextLines
from zonekeeper.wire.running.logs import LimitedHandler, LogLevel

_logger = logging.getLogger(__name__)


class _WorkerHandler(LimitedHandler):
    """Ours, to be known again: workers run many tasks, and are forked."""


def set_up(environment: Mapping[str, str], stream: TextIO | None = None) -> None:
    """Set up the log of this process once."""
    text = environment.get(logs.LEVEL.environment, "")
    ours = logging.getLogger(logs.OURS)
    if not text or any(isinstance(one, _WorkerHandler) for one in ours.handlers):
        return
    # Spark puts another stream in the place of sys.stderr while a task runs.
    handler = _WorkerHandler(stream or sys.__stderr__ or sys.stderr)
    handler.setFormatter(TextLines())
    ours.addHandler(handler)
    known = {level.name.lower(): level for level in LogLevel}
    ours.setLevel(known.get(text.lower(), LogLevel.INFO).value)
    if text.lower() not in known:
        _logger.warning(
            "%s=%s: must be one of %s; INFO is used", logs.LEVEL.environment, text, ", ".join(known)
        )
