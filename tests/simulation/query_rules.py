"""Judges what a log's record says of queries: each batch comes in once, in order, and whole."""

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Final

from zonekeeper.metadata.formats.log_record import LogQuery, LogRecord
from zonekeeper.placement.base.ids import LedgerId

Broken = tuple[str, str]

#: The rules about queries, and what they say.
QUERY_RULES: Final[Mapping[str, str]] = {
    "query record": "a batch of a query comes in once, in order, in one step and whole, and "
    "without a claim",
    "query run": "a run that held the log and lost it never claims it again",
    "query told": "a batch that its query was told to be published is in the log, and a job that "
    "was aborted is not",
    "query batch": "the messages of a batch are in the ledgers that came in with it",
}


def change(
    before: LogRecord,
    after: LogRecord,
    batches: MutableMapping[LedgerId, tuple[str, int]],
    sizes: Mapping[tuple[str, int], int],
) -> Iterator[Broken]:
    """Judge a change of one incarnation's record; note which ledgers came in with which batch."""
    known = {one.query: one for one in before.queries}
    ended = [one for one in after.ledgers if one.end is not None]
    had = {one.id for one in before.ledgers}
    highest = -1 if before.last_ledger is None else before.last_ledger
    came = [one for one in ended if one.id > highest and one.id not in had]
    moved = [one for one in after.queries if _last(one) != _last(known.get(one.query))]
    if after.next_page > before.next_page + 1:
        return  # ledgers that came in stand in pages already
    if bool(came) != bool(moved) or len(moved) > 1:
        yield (
            "query record",
            f"ledgers {[one.id for one in came]} came in with their ends, and batches of "
            f"{[one.query for one in moved]}",
        )
    for query in moved:
        batch, last = _last(query), _last(known.get(query.query))
        if batch <= last:
            yield "query record", f"batch {batch} of {query.query} came in, and {last} before it"
        if before.epoch != after.epoch or query.run != known[query.query].run:
            yield "query record", f"batch {batch} of {query.query} came in with a claim"
        messages = sum(one.end.messages for one in came if one.end is not None)
        if messages != sizes.get((query.query, batch), messages):
            yield (
                "query record",
                f"batch {batch} of {query.query} came in with {messages} messages, and has "
                f"{sizes[query.query, batch]}",
            )
        batches.update(dict.fromkeys((one.id for one in came), (query.query, batch)))


def is_over(record: LogRecord, query: str, batch: int) -> bool:
    """Can nothing of a batch come in any more, by what the record says?"""
    return any(
        one.query == query and (one.is_over or batch <= _last(one)) for one in record.queries
    )


def _last(query: LogQuery | None) -> int:
    return -1 if query is None or query.published is None else query.published
