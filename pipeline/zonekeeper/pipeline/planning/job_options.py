"""The options of the jobs: one table, for the command line, for functions and for Spark.

On the command line an option is ``--bytes-per-second``, in Python ``bytes_per_second``. Between the
driver and its workers the same texts go as options of a data source. All faults are reported at
once, in the words of the place where the options were given.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Final

from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.formats.ledger_paths import LEDGER_ID_MAX
from zonekeeper.metadata.store.errors import BadStoreUriError
from zonekeeper.metadata.stores import uri
from zonekeeper.metadata.stores.settings import METADATA
from zonekeeper.pipeline.planning.id_ranges import IdRange
from zonekeeper.placement.base import fields, units
from zonekeeper.placement.base.fields import InvalidFieldsError, Problem
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.placement.base.settings import Setting
from zonekeeper.placement.promises.cost import Prices
from zonekeeper.wire.grpc import tls
from zonekeeper.wire.grpc.tls import TlsFiles

PER_TASK_MAX: Final = 1_000_000
AT_ONCE_MAX: Final = 100_000

LEDGERS: Final = Setting(
    name="ledgers",
    shown_as="IDS",
    otherwise="all",
    help="The ledgers that are looked at: one id, such as 7, or a range, such as 7-900.",
)
PER_TASK: Final = Setting(
    name="ledgers-per-task",
    shown_as="N",
    otherwise="what suits the job",
    help="About how many ledgers a task takes.",
)
#: The options that every job has.
EVERY_JOB: Final = (METADATA, LEDGERS, PER_TASK, *tls.CLIENT_SETTINGS)
BYTES_PER_SECOND: Final = Setting(
    name="bytes-per-second",
    shown_as="SIZE",
    otherwise="no limit",
    help="The highest rate of reading, of all tasks together, such as 10MiB.",
)
AT_ONCE: Final = Setting(
    name="at-once",
    shown_as="N",
    otherwise="the cores that Spark has at the start",
    help="How many tasks share --bytes-per-second; no more of them run at once.",
)
UNWATCHED: Final = Setting(
    name="unwatched",
    shown_as="yes",
    otherwise="no",
    help="Read also if no zone watch evaluates the zones: then nothing notices an outage.",
)
PRICES: Final = (
    Setting(
        name="price-per-gb",
        shown_as="NUMBER",
        otherwise="no prices",
        help="The price of 10^9 bytes from one zone to another, both sides together, as 0.02.",
    ),
    Setting(name="currency", shown_as="NAME", help="The currency of --price-per-gb."),
    Setting(name="price-as-of", shown_as="DATE", help="The day on which the price was looked up."),
    Setting(name="price-source", shown_as="TEXT", help="Where the price was found."),
)
OF_READING: Final = (BYTES_PER_SECOND, AT_ONCE, UNWATCHED)

_TLS: Final = tuple(setting.name for setting in tls.CLIENT_SETTINGS)
_PRICES: Final = tuple(setting.name for setting in PRICES)
_PRICE: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_RANGE: Final = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """What a job is to look at, and how."""

    metadata: str
    wanted: IdRange
    #: None: what suits the job.
    ledgers_per_task: int | None = None
    tls: TlsFiles | None = None
    #: 0: no limit.
    bytes_per_second: int = 0
    at_once: int = 1
    unwatched: bool = False
    prices: Prices | None = None

    @property
    def config(self) -> ClientConfig:
        """The settings of the clients that the job's workers use."""
        return ClientConfig(tls=self.tls)


def of_python(name: str) -> str:
    """Spell an option as a parameter of a function."""
    return name.replace("-", "_")


def of_command_line(name: str) -> str:
    """Spell an option as a flag."""
    return f"--{name}"


def parse(
    given: Mapping[str, str],
    table: tuple[Setting, ...],
    spelled: Callable[[str], str] = of_command_line,
) -> JobOptions:
    """Read the options of a job, or raise ``InvalidFieldsError`` with all faults."""
    reading = _Reading(given, spelled)
    reading.check_names([setting.name for setting in table])
    ready = JobOptions(
        metadata=reading.address(),
        wanted=reading.ids(),
        ledgers_per_task=reading.number(PER_TASK.name, PER_TASK_MAX),
        tls=reading.tls(),
        bytes_per_second=reading.rate(),
        at_once=reading.number(AT_ONCE.name, AT_ONCE_MAX) or 1,
        unwatched=reading.yes(UNWATCHED.name),
        prices=reading.prices(),
    )
    if reading.problems:
        raise InvalidFieldsError(reading.problems)
    return ready


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return _DATE.fullmatch(text) is not None  # the other spellings of the standard sort wrongly


class _Reading:
    """One reading of options; a fault is noted, and the value is then of no use."""

    def __init__(self, given: Mapping[str, str], spelled: Callable[[str], str]) -> None:
        self._given = given
        self._spelled = spelled
        self.problems: list[Problem] = []

    def check_names(self, known: list[str]) -> None:
        for name in sorted(self._given.keys() - set(known)):
            near = difflib.get_close_matches(name, known, 1)
            fix = (
                f"did you mean {self._spelled(near[0])}?"
                if near
                else f"there are {', '.join(map(self._spelled, known))}"
            )
            self._wrong(name, "unknown", "is no option of this job", fix)

    def address(self) -> str:
        text = self._given.get(METADATA.name)
        if text is None:
            fix = "write zk://host:2181/ledgers"
            self._wrong(METADATA.name, "not given", "is required", fix)
            return ""
        try:
            uri.parse(text)
        except BadStoreUriError as error:
            fix = "write the address that the bookies have"
            self._wrong(METADATA.name, "cannot be used", str(error), fix)
        return text

    def ids(self) -> IdRange:
        every = IdRange(LedgerId(0), LedgerId(LEDGER_ID_MAX))
        text = self._given.get(LEDGERS.name)
        if text is None:
            return every
        found = _RANGE.fullmatch(text)
        first = int(found[1]) if found else 0
        last = int(found[2] or found[1]) if found else 0
        if found and first <= last <= LEDGER_ID_MAX:
            return IdRange(LedgerId(first), LedgerId(last))
        rule = "must be an id, or two with a dash between them, the smaller one first"
        self._wrong(LEDGERS.name, fields.shown(text), rule, "write for example 7-900")
        return every

    def number(self, name: str, most: int) -> int | None:
        text = self._given.get(name)
        if text is None:
            return None
        number = (
            int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(most)) else 0
        )
        if 1 <= number <= most:
            return number
        rule = f"must be a whole number from 1 to {most}"
        self._wrong(name, fields.shown(text), rule, "write for example 100")
        return None

    def rate(self) -> int:
        text = self._given.get(BYTES_PER_SECOND.name)
        if text is None or text == "0":
            return 0
        found = units.size_bytes(text)
        if not found:
            rule = "must be a whole number and KiB, MiB or GiB, or 0 for no limit"
            self._wrong(BYTES_PER_SECOND.name, fields.shown(text), rule, "write for example 10MiB")
        return found or 0

    def yes(self, name: str) -> bool:
        text = self._given.get(name, "no")
        if text not in ("yes", "no"):
            self._wrong(name, fields.shown(text), "must be yes or no", "write yes, or leave it out")
        return text == "yes"

    def tls(self) -> TlsFiles | None:
        texts = [self._given.get(name) for name in _TLS]
        authority, certificate, key = texts
        if authority is not None and certificate is not None and key is not None:
            return TlsFiles(authority=Path(authority), certificate=Path(certificate), key=Path(key))
        if any(text is not None for text in texts):
            names = ", ".join(map(self._spelled, _TLS))
            missing = _TLS[texts.index(None)]
            self._wrong(missing, "not given", "is needed for TLS", f"give all of {names}, or none")
        return None

    def prices(self) -> Prices | None:
        price, currency, as_of, source = (self._given.get(name) for name in _PRICES)
        if (price, currency, as_of, source) == (None, None, None, None):
            return None
        if price is None or currency is None or as_of is None or source is None:
            missing = next(name for name in _PRICES if name not in self._given)
            names = ", ".join(map(self._spelled, _PRICES))
            rule = "belongs to a price: an amount is shown with its day and its source"
            self._wrong(missing, "not given", rule, f"give all of {names}, or none")
            return None
        if not _PRICE.fullmatch(price):
            rule = "must be a number, at least 0"
            self._wrong(_PRICES[0], fields.shown(price), rule, "write for example 0.02")
            return None
        if not _is_day(as_of):
            rule = "must be a day"
            self._wrong(_PRICES[2], fields.shown(as_of), rule, "write for example 2026-11-27")
        return Prices(per_gb=Fraction(price), currency=currency, as_of=as_of, source=source)

    def _wrong(self, name: str, value: str, rule: str, fix: str) -> None:
        self.problems.append(Problem(self._spelled(name), value, rule, fix))
