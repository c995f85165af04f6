"""The rules about queries are checked: each bad history is refused for its reason."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.simulation import campaign
from tests.simulation.campaign import Task
from tests.simulation.log_sights import (
    LogGot,
    LogLedgerSwept,
    LogSight,
    QueryAborted,
    QueryPublished,
    QueryWrote,
)
from tests.simulation.query_rules import QUERY_RULES
from tests.simulation.test_log_rules import ASKED, ENDED, NEW, ledger, recorded, rules_of
from zonekeeper.metadata.formats.log_record import LogQuery, LogRecord, LogWriterMark
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.placement.base.ids import EntryId, LedgerId

VALUES = (b"q/0/0/0", b"q/0/0/1")
WROTE = QueryWrote(query="q", batch=0, values=VALUES)
CLAIMED = replace(
    NEW,
    epoch=1,
    writer=LogWriterMark(token="query/q/r", address="query/q/r"),
    queries=(LogQuery(query="q", run="r"),),
)
CAME = replace(
    CLAIMED,
    ledgers=(ledger(4, 0, messages=2), ledger(5, 2, messages=0)),
    last_ledger=LedgerId(5),
    queries=(LogQuery(query="q", run="r", published=0),),
)
TOLD = QueryPublished(query="q", batch=0, log=NEW.id, sequence=0, values=VALUES)
KNOWN = replace(TOLD, sequence=None)
BEGUN = (recorded(NEW), WROTE, recorded(CLAIMED))


def taken(record: LogRecord, epoch: int, token: str) -> LogRecord:
    return replace(record, epoch=epoch, writer=LogWriterMark(token=token, address=token))


def got(sequence: int, value: bytes, number: int = 4) -> LogSight:
    at = MessageId(LedgerId(number), EntryId(1), sequence)
    return LogGot(handle="r", sequence=sequence, id=bytes(at), value=value)


def swept(number: int, batch: tuple[str, int] | None) -> LogSight:
    return LogLedgerSwept(ledger=LedgerId(number), log=NEW.id, epoch=1, batch=batch)


MORE = replace(CAME, ledgers=(*CAME.ledgers, ledger(7, 2, messages=1)), last_ledger=LedgerId(7))
GOOD: Sequence[LogSight] = (
    *BEGUN,
    recorded(CAME),
    TOLD,
    KNOWN,
    swept(3, ("q", 0)),
    ASKED,
    got(0, VALUES[0]),
    got(1, VALUES[1]),
    ENDED,
    recorded(replace(CAME, queries=(replace(CAME.queries[0], is_over=True),))),
    recorded(taken(CAME, 2, "another")),
)
BAD: dict[str, tuple[Sequence[LogSight], str]] = {
    "a batch that is not noted": ((*BEGUN, recorded(replace(CAME, queries=()))), "query record"),
    "a batch without a ledger": (
        (*BEGUN, recorded(replace(CLAIMED, queries=CAME.queries))),
        "query record",
    ),
    "a batch in part": (
        (*BEGUN, recorded(replace(CAME, ledgers=(ledger(4, 0, messages=1),)))),
        "query record",
    ),
    "a batch that goes back": (
        (
            *BEGUN,
            recorded(CAME),
            recorded(replace(MORE, queries=(LogQuery(query="q", run="r"),))),
        ),
        "query record",
    ),
    "ledgers without a batch": ((*BEGUN, recorded(CAME), recorded(MORE)), "query record"),
    "with a claim": ((recorded(NEW), WROTE, recorded(CAME)), "query record"),
    "a run that claims again": (
        (*BEGUN, recorded(taken(CLAIMED, 2, "x")), recorded(taken(CLAIMED, 3, "query/q/r"))),
        "query run",
    ),
    "told and not there": ((*BEGUN, TOLD), "query told"),
    "known and not there": ((*BEGUN, KNOWN), "query told"),
    "aborted and there": (
        (
            *BEGUN,
            QueryAborted(query="q"),
            recorded(replace(CAME, queries=(LogQuery(query="q", run="r", is_over=True),))),
            ASKED,
            got(0, VALUES[0]),
        ),
        "query batch",
    ),
    "in another ledger": ((*BEGUN, ASKED, got(0, VALUES[0], 9)), "query batch"),
    "published otherwise": (
        (*BEGUN, recorded(CAME), replace(TOLD, values=VALUES[::-1]), ASKED, got(0, VALUES[0])),
        "log kept",
    ),
    "an attempt that may come in": ((*BEGUN, recorded(CAME), swept(8, ("q", 1))), "log orphan"),
    "a writer's ledger": ((*BEGUN, recorded(CAME), swept(8, None)), "log orphan"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_history_of_a_query_is_refused_for_its_reason(name: str) -> None:
    sights, rule = BAD[name]
    assert rule in rules_of(sights)


def test_a_good_history_of_a_query_is_accepted() -> None:
    assert rules_of(GOOD) == set()


def test_every_rule_of_queries_has_a_bad_history() -> None:
    assert {rule for _, rule in BAD.values()} >= set(QUERY_RULES)


def test_a_few_seeds_with_queries_keep_every_promise() -> None:
    report = campaign.do(Task(profile="queries", first=10_000, seeds=2))
    assert not report.failures, "\n".join(map(str, report.failures))
