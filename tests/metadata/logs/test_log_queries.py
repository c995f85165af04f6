"""What may become of a log's record by queries, and what may not."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.metadata.logs.records_of_logs import CLAIM, FIRST, LOG_ID, NEW, ending, long
from zonekeeper.metadata.formats import log_record, log_record_format
from zonekeeper.metadata.formats.log_record import (
    LOST_RUNS_MAX,
    NEWEST_MAX,
    PAGE_LEDGERS,
    QUERIES_MAX,
    LedgerTooLow,
    LogChange,
    LogClaim,
    LogDeleting,
    LogLedgerEnd,
    LogQuery,
    LogRecord,
    LogTaken,
    OtherIncarnation,
)
from zonekeeper.metadata.logs import log_queries
from zonekeeper.metadata.logs.log_queries import (
    BadQueryIdError,
    Publication,
    PublishedLedger,
    QueryOver,
    QueryRun,
    StalePublication,
)
from zonekeeper.placement.base.ids import EntryId, LedgerId

R1, R2, R3 = (QueryRun(query="q", run=run) for run in ("r1", "r2", "r3"))
OTHER = QueryRun(query="other", run="r1")
EMPTY = LogLedgerEnd(last_entry=EntryId(1), size_bytes=90, messages=0, first_ms=0, last_ms=0)


def claimed(record: LogRecord, run: QueryRun, seen: int | None = None) -> LogRecord:
    seen = record.epoch if seen is None else seen
    return log_queries.claimed(record, LOG_ID, run, seen).record


def claim_of(record: LogRecord, run: QueryRun) -> LogClaim:
    return LogClaim(log_id=LOG_ID, epoch=record.epoch, token=run.token)


def publication(
    record: LogRecord, run: QueryRun, batch: int, *ids: int, is_job: bool = False
) -> Publication:
    """Give a batch of attempts and a manifest ledger, which has no message of its own."""
    *attempts, manifest = ids
    return Publication(
        run=run,
        batch=batch,
        before=record.ledgers[-1].id if record.ledgers else None,
        ledgers=(
            *(PublishedLedger(id=LedgerId(one), end=ending(one)) for one in attempts),
            PublishedLedger(id=LedgerId(manifest), end=EMPTY),
        ),
        is_job=is_job,
    )


def published(record: LogRecord, run: QueryRun, batch: int, *ids: int) -> LogRecord:
    given = publication(record, run, batch, *ids)
    return log_queries.published(record, claim_of(record, run), given).record


def by_application(record: LogRecord) -> LogRecord:
    return log_record.claimed(record, LOG_ID, FIRST, record.epoch).record


def test_the_first_task_of_a_run_claims_and_the_others_find_the_claim() -> None:
    record = claimed(NEW, R1)

    assert record.epoch == 1
    assert record.writer is not None
    assert record.writer.token == R1.token
    assert record.queries == (LogQuery(query="q", run="r1"),)
    assert log_queries.claimed(record, LOG_ID, R1, 0) == LogChange(record=record)


def test_of_two_that_saw_one_epoch_the_first_claim_wins() -> None:
    record = claimed(NEW, R1)

    with pytest.raises(LogTaken):
        claimed(record, OTHER, seen=0)
    with pytest.raises(LogTaken):
        log_record.claimed(record, LOG_ID, FIRST, 0)
    assert claimed(record, OTHER).epoch == 2


@pytest.mark.parametrize("taker", [R2, OTHER, None])
def test_a_run_that_lost_the_log_never_claims_it_again(taker: QueryRun | None) -> None:
    record = claimed(NEW, R1)
    record = by_application(record) if taker is None else claimed(record, taker)

    with pytest.raises(LogTaken) as caught:
        claimed(record, R1)

    assert not caught.value.retryable
    assert claimed(record, R3).epoch == 3


def test_runs_that_lost_are_remembered_up_to_a_limit() -> None:
    record = NEW
    for number in range(LOST_RUNS_MAX + 2):
        record = claimed(record, QueryRun(query="q", run=f"r{number}"))
    known = log_queries.of(record, "q")
    assert known is not None
    assert known.lost_runs == tuple(f"r{number}" for number in range(1, LOST_RUNS_MAX + 1))
    for number in range(1, LOST_RUNS_MAX + 1):
        with pytest.raises(LogTaken):
            claimed(record, QueryRun(query="q", run=f"r{number}"))


def test_a_batch_comes_in_with_ends_sequences_and_running_numbers() -> None:
    record = published(claimed(NEW, R1), R1, 0, 3, 5, 9)

    assert [one.id for one in record.ledgers] == [3, 5, 9]
    assert [one.sequence for one in record.ledgers] == [0, 10, 20]
    assert [one.epoch for one in record.ledgers] == [1, 1, 1]
    ends = [one.end for one in record.ledgers if one.end is not None]
    assert [one.total_bytes for one in ends] == [1_000, 2_000, 2_000]
    assert [one.latest_ms for one in ends] == [3_000, 5_000, 5_000]
    assert (ends[2].first_ms, ends[2].last_ms) == (5_000, 5_000), "the time before it"
    assert record.last_ledger == 9
    assert record.queries == (LogQuery(query="q", run="r1", published=0),)
    record = published(record, R1, 1, 10, 11)
    assert [one.sequence for one in record.ledgers[3:]] == [20, 30]


def test_attempts_of_parallel_tasks_may_have_times_in_any_order() -> None:
    record = claimed(NEW, R1)
    late, early = ending(9), ending(2)
    given = Publication(
        run=R1,
        batch=0,
        before=None,
        ledgers=(
            PublishedLedger(id=LedgerId(1), end=late),
            PublishedLedger(id=LedgerId(2), end=early),
        ),
    )
    record = log_queries.published(record, claim_of(record, R1), given).record
    assert [one.end.latest_ms for one in record.ledgers if one.end] == [9_000, 9_000]


def test_a_known_batch_is_discarded_before_the_claim_is_looked_at() -> None:
    record = published(claimed(NEW, R1), R1, 4, 3, 5)
    claim = claim_of(record, R1)

    for now in (record, by_application(record), claimed(record, R2), claimed(record, OTHER)):
        for batch in (0, 3, 4):
            again = publication(record, R1, batch, 7, 8)
            assert log_queries.published(now, claim, again) == LogChange(record=now)
        if now is not record:
            with pytest.raises(LogTaken):
                log_queries.published(now, claim, publication(now, R1, 5, 7, 8))


def test_a_publication_knows_its_work_again() -> None:
    before = claimed(NEW, R1)
    given, claim = publication(before, R1, 0, 3, 5), claim_of(before, R1)
    once = log_queries.published(before, claim, given).record

    assert log_queries.published(once, claim, given) == LogChange(record=once)


def test_the_log_must_still_end_where_the_manifest_continues_it() -> None:
    record = published(claimed(NEW, R1), R1, 0, 3, 5)
    stale = replace(publication(record, R1, 1, 7, 8), before=None)

    with pytest.raises(StalePublication) as caught:
        log_queries.published(record, claim_of(record, R1), stale)

    assert caught.value.retryable
    application = by_application(NEW)
    opened = log_record.added(application, CLAIM, LedgerId(3)).record
    opened = claimed(opened, R1)
    with pytest.raises(StalePublication):
        published(opened, R1, 0, 7, 8)


@pytest.mark.parametrize("lower", [1, 4, 5])
def test_no_ledger_of_a_batch_comes_in_below_the_last_one(lower: int) -> None:
    record = published(claimed(NEW, R1), R1, 0, 3, 5)

    with pytest.raises(LedgerTooLow, match="write the batch again"):
        published(record, R1, 1, lower, 8)
    with pytest.raises(LedgerTooLow):
        published(record, R1, 1, 7, 6)
    with pytest.raises(LedgerTooLow):
        published(record, R1, 1, 7, 7)


def test_a_batch_of_many_ledgers_seals_several_pages() -> None:
    record = claimed(NEW, R1)
    given = publication(record, R1, 0, *range(1, 2_002))
    change = log_queries.published(record, claim_of(record, R1), given)

    assert len(change.record.ledgers) <= NEWEST_MAX
    assert [one.number for one in change.sealed] == list(range(change.record.next_page))
    every = [*(one for page in change.sealed for one in page.ledgers), *change.record.ledgers]
    assert [one.id for one in every] == list(range(1, 2_002))
    assert all(len(page.ledgers) == PAGE_LEDGERS for page in change.sealed)
    sequences = [one.sequence for one in every]
    assert sequences == [10 * number for number in range(2_001)]


def test_a_batch_continues_a_long_log() -> None:
    record = claimed(long(70)[0], R1)
    high = record.ledgers[-1].id
    after = published(record, R1, 0, high + 1, high + 2)
    assert after.ledgers[-2].sequence == 700
    assert after.ledgers[-2].end is not None
    assert after.ledgers[-2].end.total_bytes == 71_000


def test_a_job_is_over_when_it_is_published_or_aborted() -> None:
    record = claimed(NEW, R1)
    job = publication(record, R1, 0, 3, 5, is_job=True)
    done = log_queries.published(record, claim_of(record, R1), job).record
    aborted = log_queries.ended(record, LOG_ID, "q").record

    assert log_queries.published(done, claim_of(record, R1), job).record == done
    assert log_queries.ended(done, LOG_ID, "q").record == done
    with pytest.raises(QueryOver):
        log_queries.published(aborted, claim_of(record, R1), job)
    for over in (done, aborted):
        assert log_queries.never_comes(over, "q", 0)
        assert log_queries.never_comes(over, "q", 7)
        with pytest.raises(QueryOver):
            claimed(by_application(over), R2)
        with pytest.raises(QueryOver):
            claimed(over, R1)
    assert not log_queries.is_known(aborted, "q", 0)
    assert log_queries.ended(record, "ab" * 16, "q").record == record


def test_a_job_that_was_aborted_before_it_claimed_the_log_claims_it_no_more() -> None:
    record = claimed(NEW, R1)
    late = QueryRun(query="late", run="x")
    aborted = log_queries.ended(record, LOG_ID, "late").record

    assert log_queries.ended(aborted, LOG_ID, "late").record == aborted
    assert log_queries.ended(record, "ab" * 16, "late").record == record
    assert log_queries.never_comes(aborted, "late", 0)
    with pytest.raises(QueryOver):
        claimed(aborted, late)
    again = log_record_format.parse(log_record_format.render(aborted, "i"), "i")
    assert again == aborted


def test_a_job_that_never_claimed_makes_no_query_forgotten_that_goes_on() -> None:
    record = claimed(NEW, R1)
    for number in range(QUERIES_MAX - 1):
        record = claimed(record, QueryRun(query=f"s{number}", run="x"))
    assert len(record.queries) == QUERIES_MAX
    assert log_queries.ended(record, LOG_ID, "late").record == record
    over = log_queries.ended(record, LOG_ID, "s5").record
    late = log_queries.ended(over, LOG_ID, "late").record
    assert {one.query for one in late.queries} == {one.query for one in record.queries} - {"s5"} | {
        "late"
    }


def test_what_never_comes_is_what_is_published_and_no_more() -> None:
    record = published(claimed(NEW, R1), R1, 3, 5, 6)

    assert [log_queries.never_comes(record, "q", batch) for batch in (0, 3, 4)] == [
        True,
        True,
        False,
    ]
    assert not log_queries.never_comes(record, "other", 0)


def test_of_many_queries_those_that_are_over_are_forgotten_first_then_the_oldest() -> None:
    record = claimed(NEW, R1)
    for number in range(QUERIES_MAX - 1):
        run = QueryRun(query=f"job{number}", run="r")
        record = claimed(record, run)
        record = log_queries.ended(record, LOG_ID, run.query).record
    record = claimed(record, QueryRun(query="last", run="r"))
    assert len(record.queries) == QUERIES_MAX
    assert log_queries.of(record, "q") is not None
    assert log_queries.of(record, "job0") is None

    record = claimed(NEW, R1)
    for number in range(QUERIES_MAX):
        record = claimed(record, QueryRun(query=f"stream{number}", run="r"))
        if number == 0:
            record = claimed(record, R2)
    assert len(record.queries) == QUERIES_MAX
    assert log_queries.of(record, "stream0") is None
    assert log_queries.of(record, "q") is not None, "it was used later"


def test_another_log_and_one_that_is_being_deleted_are_left_alone() -> None:
    record = claimed(NEW, R1)
    claim, given = claim_of(record, R1), publication(record, R1, 0, 3)
    deleting = replace(record, deleting=True)

    with pytest.raises(OtherIncarnation):
        log_queries.claimed(record, "ab" * 16, R1, 1)
    with pytest.raises(OtherIncarnation):
        log_queries.published(record, replace(claim, log_id="ab" * 16), given)
    with pytest.raises(LogDeleting):
        claimed(deleting, R2)
    with pytest.raises(LogDeleting):
        log_queries.published(deleting, claim, given)


@pytest.mark.parametrize("value", ["", "a b", "a/b", "ä", "x" * 101, "a\n"])
def test_ids_that_could_be_taken_for_others_are_refused(value: str) -> None:
    with pytest.raises(BadQueryIdError):
        log_queries.check_id("query", value)


@given(seed=st.integers(0, 1 << 30))
def test_whatever_runs_zombies_and_applications_do_each_batch_comes_in_once(seed: int) -> None:
    """Play drivers that die, zombies that go on, two queries and an application.

    Each run publishes the batches that follow its query's checkpoint. A driver may die before the
    checkpoint has the batch that it published, and its zombie publishes on.
    """
    chance = random.Random(seed)
    record, next_id, runs = NEW, 1, 0
    checkpoint = {"q": 0, "other": 0}
    held: list[tuple[QueryRun, LogClaim]] = []
    expected: list[tuple[str, int]] = []
    ids: dict[int, tuple[str, int]] = {}
    lost: set[str] = set()
    for _ in range(chance.randrange(1, 40)):
        kind = chance.random()
        if kind < 0.3:
            runs += 1
            run = QueryRun(query=chance.choice(["q", "other"]), run=f"r{runs}")
            record = claimed(record, run)
            lost |= {one.token for one, _ in held}
            held.append((run, claim_of(record, run)))
        elif kind < 0.4:
            record = by_application(replace(record, writer=None))
            lost |= {one.token for one, _ in held}
        elif held:
            run, claim = chance.choice(held[-3:])
            batch = checkpoint[run.query] - (chance.random() < 0.3)
            if batch < 0:
                continue
            if chance.random() < 0.3:
                try:
                    assert claimed(record, run) == record
                except LogTaken:
                    assert run.token in lost
            before = record
            some = [next_id + step for step in range(chance.randrange(1, 4))]
            next_id = some[-1] + 1
            given = publication(record, run, batch, *some)
            try:
                record = log_queries.published(record, claim, given).record
            except LogTaken:
                assert run.token in lost
                continue
            if (run.query, batch) in expected:
                assert record == before
            else:
                assert run.token not in lost
                expected.append((run.query, batch))
                ids |= dict.fromkeys(some, (run.query, batch))
            if chance.random() < 0.7:  # the driver did not die meanwhile
                checkpoint[run.query] = max(checkpoint[run.query], batch + 1)
    assert len(record.ledgers) <= NEWEST_MAX
    found = [ids[one.id] for one in record.ledgers]
    assert list(dict.fromkeys(found)) == expected[-len(set(found)) :]
    assert all(one.id < other.id for one, other in pairwise(record.ledgers))
    assert all(
        other.sequence == one.sequence + one.end.messages
        for one, other in pairwise(record.ledgers)
        if one.sequence is not None and one.end is not None
    )
