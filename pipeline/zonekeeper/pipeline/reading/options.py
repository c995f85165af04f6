"""The options of a reader: what is read, from where to where, and in how many pieces.

``SETTINGS`` is the table; the page of the documentation follows from it. An option is given by its
name alone: Spark has no flags, and what a driver's environment says would not reach its tasks.

Ranges are options, not filters. Spark 4.3 keeps what a source was once asked to filter, and applies
it to other queries over the same DataFrame. The results of those queries are then wrong.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.metadata.formats import log_names
from zonekeeper.metadata.formats.log_names import BadLogNameError
from zonekeeper.metadata.logs import log_cursor
from zonekeeper.pipeline.base import connection_options, option_texts
from zonekeeper.pipeline.base.connection_options import ConnectionOptions
from zonekeeper.pipeline.base.option_texts import OptionTexts
from zonekeeper.pipeline.reading import log_places
from zonekeeper.pipeline.reading.wanted import (
    PARTITIONS_MAX,
    ROWS_PER_BATCH,
    ROWS_PER_BATCH_MAX,
    TRIGGER_MAX,
    AtSequence,
    AtTime,
    LedgersInRange,
    LedgersWith,
    OneLedger,
    OneLog,
    OnTrimmed,
    ReadEdge,
    ReadPlace,
    Wanted,
)
from zonekeeper.placement.base.fields import InvalidFieldsError, Problem
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.placement.base.settings import Setting
from zonekeeper.wire.formats.entries import ID_END

_RANGE: Final = re.compile("([0-9]{1,19})-([0-9]{1,19})")
_KEY_VALUE: Final = re.compile("([^=]+)=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What is read, how its cluster is reached, and in how many pieces it is read."""

    connection: ConnectionOptions
    wanted: Wanted
    #: None: the number follows from the size of what is read.
    partitions: int | None = None
    rows_per_batch: int = field(default=ROWS_PER_BATCH)


SETTINGS: Final = (
    connection_options.SETTINGS[0],
    Setting(name="ledger", shown_as="ID", help="The id of the ledger that is read."),
    Setting(
        name="ledgers",
        shown_as="IDS",
        help="The ledgers that are read: `7-900`, both included, or `key=value` for those with "
        "this custom metadata.",
    ),
    Setting(name="log", shown_as="NAME", help="The log that is read."),
    Setting(
        name="first",
        shown_as="ID",
        default="0",
        help="Of a `ledger`: the first entry that is wanted; it may stand right behind the end.",
    ),
    Setting(
        name="last",
        shown_as="ID",
        otherwise="the end",
        help="Of a `ledger`: the last entry that is wanted.",
    ),
    Setting(
        name="from",
        shown_as="PLACE",
        default="earliest",
        help="Of a `log`: the first message that is wanted.",
    ),
    Setting(
        name="to",
        shown_as="PLACE",
        default="latest",
        help="Of a `log`, not in a stream: the last message that is wanted.",
    ),
    *connection_options.SETTINGS[1:],
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
        help="Rows of an Arrow batch; at 8 MiB a batch ends earlier.",
    ),
    Setting(
        name="maxRowsPerTrigger",
        shown_as="N",
        otherwise="all that there are",
        help="Of a stream: the most rows of a micro-batch, to the message.",
    ),
    Setting(
        name="maxBytesPerTrigger",
        shown_as="N",
        otherwise="all that there are",
        help="Of a stream: a micro-batch ends before the batch of the log that would make it larger"
        "; it has at least one.",
    ),
    Setting(
        name="cursor",
        shown_as="NAME",
        help="Of a stream: the cursor of the log that says where the stream began, and is moved "
        "behind what Spark has committed. Needed with `from` `latest`.",
    ),
    Setting(
        name="onTrimmed",
        shown_as="WORD",
        default=OnTrimmed.FAIL.value,
        help="Of a stream: `fail` if what comes next was trimmed away, or go on at the `earliest`.",
    ),
)
_KINDS: Final = ("ledger", "ledgers", "log")
#: For each option that is of one kind only: the kind.
_OF: Final = {
    "first": "ledger",
    "last": "ledger",
    "from": "log",
    "to": "log",
    "cursor": "log",
    "onTrimmed": "log",
    "maxRowsPerTrigger": "log",
    "maxBytesPerTrigger": "log",
}
_EXAMPLE: Final = '.option("ledger", 7), .option("ledgers", "7-900") or .option("log", "orders/eu")'
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
    texts = OptionTexts(given, SETTINGS)
    connection = connection_options.given(texts)
    wanted = _wanted(texts)
    partitions = texts.number("partitions", 1, PARTITIONS_MAX)
    rows_per_batch = texts.number("rowsPerBatch", 1, ROWS_PER_BATCH_MAX)
    if not given:
        texts.problems.append(_NO_OPTIONS)
    texts.check()
    assert wanted is not None, "what is lacking is a problem"
    return ReadOptions(
        connection=connection,
        wanted=wanted,
        partitions=partitions,
        rows_per_batch=rows_per_batch or ROWS_PER_BATCH,
    )


def _wanted(texts: OptionTexts) -> Wanted | None:
    kinds = [kind for kind in _KINDS if kind in texts]
    if len(kinds) != 1:
        shown = " and ".join(kinds) if kinds else "not given"
        texts.wrong("ledger, ledgers or log", shown, "exactly one is required", f"write {_EXAMPLE}")
    for name, kind in _OF.items():
        if name in texts and kinds and kind not in kinds:
            others = ", ".join(one for one, of in _OF.items() if of == kinds[0])
            fix = f"leave it out; {kinds[0]} has {others}" if others else "leave it out"
            texts.wrong(name, "given", f"is an option of a {kind}, not of {kinds[0]}", fix)
    ledger, ledgers, log = _ledger(texts), _ledgers(texts), _log(texts)
    return ledger or ledgers or log


def _ledger(texts: OptionTexts) -> OneLedger | None:
    ledger = texts.number("ledger", 0, ID_END - 1)
    first, last = texts.number("first", 0, ID_END - 1), texts.number("last", 0, ID_END - 1)
    if last is not None and last < (first or 0):
        rule = f"must not be below first, which is {first}"
        texts.wrong("last", str(last), rule, "give the larger one as last")
    return (
        None if ledger is None else OneLedger(ledger=LedgerId(ledger), first=first or 0, last=last)
    )


def _ledgers(texts: OptionTexts) -> LedgersInRange | LedgersWith | None:
    return texts.read("ledgers", _ledgers_of)


def _ledgers_of(text: str) -> LedgersInRange | LedgersWith:
    found = _RANGE.fullmatch(text)
    if found is not None:
        first, last = int(found[1]), int(found[2])
        if not first <= last < ID_END:
            raise ValueError(
                f"is no range of ids from 0 to {ID_END - 1}; write the lower id first: 7-900"
            )
        return LedgersInRange(first=LedgerId(first), last=LedgerId(last))
    if (number := option_texts.whole(text)) is not None:
        raise ValueError(f"is neither a range nor key=value; for one ledger give ledger {number}")
    named = _KEY_VALUE.fullmatch(text)
    if named is None:
        raise ValueError("is neither a range nor key=value; write 7-900, or job=etl-7")
    return LedgersWith(key=named[1], value=named[2].encode())


def _log(texts: OptionTexts) -> OneLog | None:
    name = texts.read("log", _log_name)
    first, last = texts.read("from", log_places.parse), texts.read("to", log_places.parse)
    cursor = texts.read("cursor", _cursor_name)
    on_trimmed = texts.read("onTrimmed", _on_trimmed)
    max_rows = texts.number("maxRowsPerTrigger", 1, TRIGGER_MAX)
    max_bytes = texts.number("maxBytesPerTrigger", 1, TRIGGER_MAX)
    if last is ReadEdge.EARLIEST:
        texts.wrong("to", "earliest", "is never the last message that is wanted", "write latest")
    if first is not None and last is not None and _goes_back(first, last):
        texts.wrong(
            "to", _shown(last), f"stands before from, which is {_shown(first)}", "swap them"
        )
    if name is None:
        return None
    return OneLog(
        name=name,
        first=first,
        last=last,
        cursor=cursor,
        on_trimmed=on_trimmed or OnTrimmed.FAIL,
        max_rows=max_rows,
        max_bytes=max_bytes,
    )


def _goes_back(first: ReadPlace, last: ReadPlace) -> bool:
    """Does the order of two places of one form show that there is nothing between them?"""
    match first, last:
        case AtSequence(), AtSequence():
            return last.sequence < first.sequence
        case AtTime(), AtTime():
            return last.wall_ms < first.wall_ms
        case (ReadEdge() | AtSequence() | AtTime(), _) | (_, ReadEdge() | AtSequence() | AtTime()):
            return False
        case _:
            return last < first


def _shown(place: ReadPlace) -> str:
    match place:
        case ReadEdge():
            return place.value
        case AtSequence(sequence=sequence):
            return f"sequence:{sequence}"
        case AtTime(wall_ms=wall_ms):
            return f"the time {wall_ms} ms"
        case _:
            return str(place)


def _log_name(text: str) -> str:
    try:
        log_names.check(text)
    except BadLogNameError as error:
        raise ValueError(
            f"is no name of a log: {error}; write it as `zonekeeper log list` does"
        ) from None
    return text


def _cursor_name(text: str) -> str:
    try:
        log_cursor.check_name(text)
    except ValueError as error:
        raise ValueError(f"is no name of a cursor: {error}; write for example billing") from None
    return text


def _on_trimmed(text: str) -> OnTrimmed:
    try:
        return OnTrimmed(text.lower())
    except ValueError:
        words = " or ".join(one.value for one in OnTrimmed)
        raise ValueError(f"must be {words}; write {OnTrimmed.EARLIEST.value}") from None


def check_batch(options: ReadOptions) -> None:
    """Refuse what only a stream has; raises ``InvalidFieldsError``."""
    log = options.wanted
    if not isinstance(log, OneLog):
        return
    of_stream = {
        "cursor": log.cursor is not None,
        "onTrimmed": log.on_trimmed is not OnTrimmed.FAIL,
        "maxRowsPerTrigger": log.max_rows is not None,
        "maxBytesPerTrigger": log.max_bytes is not None,
    }
    problems = [
        Problem(name, "given", "is an option of a stream", "leave it out, or use spark.readStream")
        for name, is_given in of_stream.items()
        if is_given
    ]
    if problems:
        raise InvalidFieldsError(problems)


def check_stream(options: ReadOptions) -> OneLog:
    """Give the log that a stream reads; refuse what a stream cannot do."""
    log, problems = options.wanted, []
    if not isinstance(log, OneLog):
        fix = 'give .option("log", "orders/eu"), or use spark.read'
        raise InvalidFieldsError([Problem("log", "not given", "is required for a stream", fix)])
    if log.last is not None:
        fix = "leave it out, or use spark.read; trigger(availableNow=True) ends by itself"
        problems.append(Problem("to", _shown(log.last), "is no option of a stream", fix))
    if log.first is ReadEdge.LATEST and log.cursor is None:
        rule = "needs a cursor in a stream: Spark does not keep where a query began"
        problems.append(Problem("from", "latest", rule, 'write .option("cursor", "my-query")'))
    if problems:
        raise InvalidFieldsError(problems)
    return log
