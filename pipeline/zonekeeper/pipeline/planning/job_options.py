"""The options of the jobs: one table, for the command line, for functions and for Spark.

On the command line an option is ``--bytes-per-second``, in Python ``bytes_per_second``. Between the
driver and its workers the same texts go as options of a data source. All faults are reported at
once, in the words of the place where the options were given.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Final

from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.formats.ledger_paths import LEDGER_ID_MAX
from zonekeeper.metadata.stores.settings import METADATA
from zonekeeper.pipeline.base import connection_options
from zonekeeper.pipeline.base.option_texts import YES, OptionTexts
from zonekeeper.pipeline.planning.id_ranges import IdRange
from zonekeeper.placement.base import units
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
    shown_as=YES,
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
OF_REPAIR: Final = (
    Setting(
        name=BYTES_PER_SECOND.name,
        shown_as="SIZE",
        otherwise="only the policy's limit",
        help="The highest rate of copying and of reading, of all tasks together, such as 10MiB. "
        "The policy's `repair.bytesPerSecond` limits each task besides.",
    ),
    AT_ONCE,
)
DRY_RUN: Final = Setting(
    name="dry-run",
    shown_as=YES,
    otherwise="no",
    help="End with the preflight: nothing is read of entries, and nothing is copied.",
)

_AUTHORITY, _CERTIFICATE, _KEY = (setting.name for setting in tls.CLIENT_SETTINGS)
_PRICES: Final = tuple(setting.name for setting in PRICES)
_PRICE: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EVERY: Final = IdRange(LedgerId(0), LedgerId(LEDGER_ID_MAX))
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
    #: End with the preflight.
    dry_run: bool = False

    @property
    def config(self) -> ClientConfig:
        """The settings of the clients that the job's workers use."""
        return ClientConfig(tls=connection_options.readable(self.tls))


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
    texts = OptionTexts(given, table, spelled=spelled, of="this job")
    ready = JobOptions(
        metadata=connection_options.address(texts, "zk://host:2181/ledgers"),
        wanted=texts.read(LEDGERS.name, _ids) or _EVERY,
        ledgers_per_task=texts.number(PER_TASK.name, 1, PER_TASK_MAX),
        tls=connection_options.tls_files(texts, (_AUTHORITY, _CERTIFICATE, _KEY)),
        bytes_per_second=texts.read(BYTES_PER_SECOND.name, _rate) or 0,
        at_once=texts.number(AT_ONCE.name, 1, AT_ONCE_MAX) or 1,
        unwatched=texts.yes(UNWATCHED.name),
        prices=_prices(texts),
        dry_run=texts.yes(DRY_RUN.name),
    )
    texts.check()
    return ready


def _ids(text: str) -> IdRange:
    found = _RANGE.fullmatch(text)
    first = int(found[1]) if found else 0
    last = int(found[2] or found[1]) if found else 0
    if found and first <= last <= LEDGER_ID_MAX:
        return IdRange(LedgerId(first), LedgerId(last))
    raise ValueError(
        "must be an id, or two with a dash between them, the smaller one first; "
        "write for example 7-900"
    )


def _rate(text: str) -> int:
    found = 0 if text == "0" else units.size_bytes(text) or None
    if found is None:
        raise ValueError(
            "must be a whole number and KiB, MiB or GiB, or 0 for no limit; write for example 10MiB"
        )
    return found


def _prices(texts: OptionTexts) -> Prices | None:
    missing = [name for name in _PRICES if name not in texts]
    if len(missing) == len(_PRICES):
        return None
    if missing:
        names = ", ".join(map(texts.spelled, _PRICES))
        rule = "belongs to a price: an amount is shown with its day and its source"
        texts.wrong(missing[0], "not given", rule, f"give all of {names}, or none")
        return None
    price, currency, as_of, source = _PRICES
    per_gb, day = texts.read(price, _price), texts.read(as_of, _day)
    name, place = texts.text(currency), texts.text(source)
    if per_gb is None or day is None or name is None or place is None:
        return None
    return Prices(per_gb=per_gb, currency=name, as_of=day, source=place)


def _price(text: str) -> Fraction:
    if not _PRICE.fullmatch(text):
        raise ValueError("must be a number, at least 0; write for example 0.02")
    return Fraction(text)


def _day(text: str) -> str:
    # The other spellings of the standard sort wrongly.
    if not _DATE.fullmatch(text) or not _is_day(text):
        raise ValueError("must be a day; write for example 2026-11-27")
    return text


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
