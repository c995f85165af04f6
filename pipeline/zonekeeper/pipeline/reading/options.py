"""The options of a reader, as Spark gives them: texts, read once, with all faults named at once.

``SETTINGS`` is the table; the page of the documentation follows from it. An option is given by its
name alone: Spark has no flags, and what a driver's environment says would not reach its tasks.

Ranges are options, not filters. Spark 4.3 keeps what a source was once asked to filter, and applies
it to other queries over the same DataFrame. The results of those queries are then wrong.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.metadata.store.errors import BadStoreUriError
from zonekeeper.metadata.stores import uri
from zonekeeper.metadata.stores.settings import METADATA
from zonekeeper.placement.base import fields
from zonekeeper.placement.base.fields import InvalidFieldsError, Problem
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.placement.base.settings import Setting
from zonekeeper.wire.formats.entries import ID_END

PARTITIONS_MAX: Final = 10_000
ROWS_PER_BATCH_MAX: Final = 100_000
ROWS_PER_BATCH: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The requested entries, their ledger, and the number of pieces."""

    metadata: str
    ledger: LedgerId
    first: int = 0
    #: None: the ledger's last entry.
    last: int | None = None
    password: bytes = field(default=b"", repr=False)
    #: None: the number follows from the size of the range.
    partitions: int | None = None
    rows_per_batch: int = ROWS_PER_BATCH


#: The least and the largest value of each number. Spark's names are case-insensitive, and come here
#: in any case.
_NUMBERS: Final = {
    "ledger": (0, ID_END - 1),
    "first": (0, ID_END - 1),
    "last": (0, ID_END - 1),
    "partitions": (1, PARTITIONS_MAX),
    "rowsPerBatch": (1, ROWS_PER_BATCH_MAX),
}
SETTINGS: Final = (
    METADATA,
    Setting(name="ledger", shown_as="ID", required=True, help="The ledger's id."),
    Setting(
        name="first",
        shown_as="ID",
        default="0",
        help="The first entry that is wanted; it may stand right behind the end.",
    ),
    Setting(name="last", shown_as="ID", otherwise="the end", help="The last entry that is wanted."),
    Setting(
        name="password",
        shown_as="TEXT",
        otherwise="empty",
        help="The ledger's password, in UTF-8; it stands in no plan and in no error.",
    ),
    Setting(
        name="partitions",
        shown_as="N",
        otherwise="one for each 64 MiB",
        help="How many tasks share the entries; never more than there are entries.",
    ),
    Setting(
        name="rowsPerBatch",
        shown_as="N",
        default=str(ROWS_PER_BATCH),
        help="Rows of an Arrow batch; at 8 MiB of payload a batch ends earlier.",
    ),
)
_NAMES: Final = tuple(setting.name for setting in SETTINGS)
#: How what must be given is written.
_REQUIRED: Final = {
    "metadata": '.option("metadata", "zk://host:2181/ledgers")',
    "ledger": '.option("ledger", 7)',
}
#: Spark forgets the options of a table that was created with columns of its own.
_NO_OPTIONS: Final = Problem(
    "a table in SQL",
    "no option at all",
    "keeps its OPTIONS only if it is created without columns",
    "write CREATE TABLE t USING zonekeeper OPTIONS (...), or name them in the query: "
    "SELECT ... FROM t WITH (metadata = '...', ledger = 7)",
)


def parse(given: Mapping[str, str]) -> ReadOptions:
    """Read the options, or raise ``InvalidFieldsError`` with all faults."""
    known = {name.lower(): name for name in _NAMES}
    texts = {known[name.lower()]: text for name, text in given.items() if name.lower() in known}
    problems = [_unknown(name) for name in sorted(given) if name.lower() not in known]
    problems += [
        Problem(name, "not given", "is required", f"write {example}")
        for name, example in _REQUIRED.items()
        if name not in texts
    ]
    numbers: dict[str, int] = {}
    for name, (least, most) in _NUMBERS.items():
        if name in texts:
            number = _number(texts[name])
            if number is not None and least <= number <= most:
                numbers[name] = number
            else:
                rule = f"must be a whole number from {least} to {most}"
                fix = f"write for example {least}"
                problems.append(Problem(name, fields.shown(texts[name]), rule, fix))
    if numbers.get("last", ID_END) < numbers.get("first", 0):
        rule = f"must not be below first, which is {numbers.get('first', 0)}"
        problems.append(Problem("last", str(numbers["last"]), rule, "give the larger one as last"))
    problems += _bad_address(texts)
    if not given:
        problems.append(_NO_OPTIONS)
    if problems:
        raise InvalidFieldsError(problems)
    return ReadOptions(
        metadata=texts["metadata"],
        ledger=LedgerId(numbers["ledger"]),
        first=numbers.get("first", 0),
        last=numbers.get("last"),
        password=texts.get("password", "").encode(),
        partitions=numbers.get("partitions"),
        rows_per_batch=numbers.get("rowsPerBatch", ROWS_PER_BATCH),
    )


def _number(text: str) -> int | None:
    return (
        int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(ID_END)) else None
    )


def _unknown(name: str) -> Problem:
    near = difflib.get_close_matches(name, _NAMES, 1)
    fix = f"did you mean {near[0]}?" if near else f"there are {', '.join(_NAMES)}"
    return Problem(name, "unknown", "is no option of zonekeeper", fix)


def _bad_address(texts: Mapping[str, str]) -> list[Problem]:
    try:
        uri.parse(texts.get("metadata", "memory:"))
    except BadStoreUriError as error:
        fix = "write the address that the bookies have"
        return [Problem("metadata", "cannot be used", str(error), fix)]
    return []
