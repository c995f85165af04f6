"""The queries of the rounds, and what each makes of its messages; in Spark, and in Python."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from zonekeeper.log.formats.messages import LogMessage

#: Seconds of event time, in which messages ascend.
WINDOW_S = 20
LATE_S = 10
#: Some messages make a part of a ledger of its own, others travel with the commit.
LARGE_BYTES = 4_000
SMALL_BYTES = 60
#: One of so many messages is one that came before.
AGAIN_EVERY = 4


def numbered(number: int, large: int) -> LogMessage:
    """Give a message whose content follows from its number."""
    chance = random.Random(number)
    size = chance.randrange(large)
    return LogMessage(
        payload=b"%d/" % number + chance.randbytes(size).hex().encode(),
        key=None if number % 3 == 0 else b"%d" % (number % 10),
        headers=(("n", b"%d" % number),) if number % 5 == 0 else (),
    )


def fresh(chance: random.Random, first: int, count: int) -> list[LogMessage]:
    """Give messages with ascending numbers."""
    large = chance.choice([SMALL_BYTES, LARGE_BYTES])
    return [numbered(number, large) for number in range(first, first + count)]


def copied(frame: DataFrame) -> DataFrame:
    return frame.select("key", "payload", "headers")


def distinct(frame: DataFrame) -> DataFrame:
    return frame.select("payload").dropDuplicates(["payload"])


def windows(frame: DataFrame) -> DataFrame:
    number = sql.split(frame["payload"].cast("string"), "/")[0].cast("bigint")
    timed = frame.select(sql.timestamp_seconds(number).alias("at"))
    counted = (
        timed.withWatermark("at", f"{LATE_S} seconds")
        .groupBy(sql.window("at", f"{WINDOW_S} seconds"))
        .count()
    )
    text = sql.concat(sql.unix_timestamp(sql.col("window.start")), sql.lit(":"), sql.col("count"))
    return counted.select(text.alias("payload"))


def number_of(message: LogMessage) -> int:
    return int(message.payload.split(b"/")[0])


def windows_of(messages: Sequence[LogMessage], until: int | None = None) -> list[LogMessage]:
    """Give the windows that are over before a second; None: all that have a message."""
    counts = Counter(number_of(one) // WINDOW_S * WINDOW_S for one in messages)
    return [
        LogMessage(payload=b"%d:%d" % (start, count))
        for start, count in sorted(counts.items())
        if until is None or start + WINDOW_S <= until
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundQuery:
    """One kind of query."""

    of: Callable[[DataFrame], DataFrame]
    #: What must be there, of all messages and of those of earlier rounds.
    must: Callable[[list[LogMessage], list[LogMessage]], list[LogMessage]]
    #: What may be there.
    may: Callable[[list[LogMessage]], list[LogMessage]]
    repeats: bool = False


def _without_twins(messages: list[LogMessage]) -> list[LogMessage]:
    return [LogMessage(payload=one) for one in dict.fromkeys(each.payload for each in messages)]


def _closed(messages: list[LogMessage], before: list[LogMessage]) -> list[LogMessage]:
    """Give the windows that earlier rounds have closed: the watermark goes on behind a batch."""
    if not before:
        return []
    return windows_of(messages, until=number_of(before[-1]) - LATE_S)


QUERIES = {
    "copied": RoundQuery(of=copied, must=lambda every, _: every, may=lambda every: every),
    "distinct": RoundQuery(
        of=distinct, must=lambda every, _: _without_twins(every), may=_without_twins, repeats=True
    ),
    "windows": RoundQuery(of=windows, must=_closed, may=windows_of),
}
