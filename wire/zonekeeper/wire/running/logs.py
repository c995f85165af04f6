"""The log of a process: where it goes, from which level on, in which form. Set up here alone.

All processes have the two settings of ``SETTINGS`` in their tables. The log goes to standard error,
a line an event (``log_lines``), and each place in the code has a limit (``log_limit``).

The level is that of our own loggers. Libraries are never heard below INFO: at DEBUG some of them
log what they send, and that may be a password.

The audit has a limit of its own (``audit_log``), and is written at every level of the setting.

A library of ours sets up nothing: in an application the log is the application's.
"""

import enum
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TextIO

from zonekeeper.placement.base.settings import GivenSettings, Setting
from zonekeeper.wire.running import audit_log
from zonekeeper.wire.running.log_limit import WINDOW_S, LeftOut, LineLimit, LinePlace
from zonekeeper.wire.running.log_lines import JsonLines, TextLines

OURS: Final = "zonekeeper"


class LogForm(enum.StrEnum):
    """The forms of a log's lines."""

    TEXT = "text"
    JSON = "json"


class LogLevel(enum.Enum):
    """The levels from which on a log is written."""

    DEBUG = logging.DEBUG
    INFO = logging.INFO
    WARNING = logging.WARNING
    ERROR = logging.ERROR


LEVEL: Final = Setting(
    name="log-level",
    shown_as="LEVEL",
    default="info",
    help="The level from which on events are logged: debug, info, warning or error.",
)
FORM: Final = Setting(
    name="log-format",
    shown_as="FORM",
    default="text",
    help="The form of the log on standard error, one line an event: text, or json for one object "
    "a line.",
)
#: The settings that every process has.
SETTINGS: Final = (LEVEL, FORM)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """The settings of a log, as values."""

    level: LogLevel = LogLevel.INFO
    form: LogForm = LogForm.TEXT


def given_to(given: GivenSettings) -> LogSettings:
    """Read the settings of a process's log; raises ``BadSettingError``."""
    return LogSettings(level=given.read(LEVEL.name, _level), form=given.read(FORM.name, _form))


def set_up(settings: LogSettings, process: Mapping[str, str], stream: TextIO | None = None) -> None:
    """Make the log of this process, in the place of any other; ``process`` says which it is."""
    root = logging.getLogger()
    for before in tuple(root.handlers):
        root.removeHandler(before)
        before.close()
    handler = LimitedHandler(sys.stderr if stream is None else stream)
    as_json = settings.form is LogForm.JSON
    handler.setFormatter(JsonLines(process) if as_json else TextLines())
    root.addHandler(handler)
    root.setLevel(max(settings.level.value, logging.INFO))
    logging.getLogger(OURS).setLevel(settings.level.value)
    logging.getLogger(audit_log.NAME).setLevel(logging.INFO)


class LimitedHandler(logging.StreamHandler[TextIO]):
    """Writes records to a stream, and no more of one place than the limit allows."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._limit = LineLimit()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it; before that, what was left out since."""
        for left_out in self._limit.over(record.created):
            super().emit(_told(left_out))
        if record.name == audit_log.NAME:
            super().emit(record)
            return
        place = LinePlace(logger=record.name, path=record.pathname, line=record.lineno)
        if self._limit.takes(place, record.levelno, record.created):
            super().emit(record)

    def close(self) -> None:
        """Write what was left out; the process ends."""
        self.acquire()
        try:
            for left_out in self._limit.all():
                super().emit(_told(left_out))
        finally:
            self.release()
        super().close()


def _told(left_out: LeftOut) -> logging.LogRecord:
    place = left_out.place
    record = logging.LogRecord(
        place.logger,
        left_out.level,
        place.path,
        place.line,
        "and %d more lines of this kind within %d s",
        (left_out.count, round(WINDOW_S)),
        None,
    )
    record.suppressed = left_out.count
    return record


def _level(text: str) -> LogLevel:
    try:
        return LogLevel[text.upper()]
    except KeyError:
        raise ValueError(f"{text!r}: must be debug, info, warning or error") from None


def _form(text: str) -> LogForm:
    try:
        return LogForm(text)
    except ValueError:
        raise ValueError(f"{text!r}: must be text or json") from None
