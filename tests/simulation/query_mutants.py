"""Planted bugs of queries: of their claims, attempts and publications, and of what is collected.

Directed tests show each of them, and some that the simulator does not find
(``tests/log/publishing/test_planted_bugs.py``).
"""

import dataclasses
from collections.abc import Sequence
from typing import Final

from tests.simulation.patching import Patch
from tests.simulation.planting import Mutant
from zonekeeper.client.api.client import Client
from zonekeeper.log.keeping import orphans
from zonekeeper.log.keeping.orphans import LogLedgerFate
from zonekeeper.log.publishing import publishing
from zonekeeper.log.publishing.partitions import WholeBatch
from zonekeeper.log.publishing.publishing import PublishedBatch
from zonekeeper.metadata.formats import log_record
from zonekeeper.metadata.formats.log_record import LogChange, LogClaim, LogRecord
from zonekeeper.metadata.logs import log_queries, logs
from zonekeeper.metadata.logs.log_queries import Publication, QueryRun
from zonekeeper.metadata.logs.log_stamp import LogStamp
from zonekeeper.placement.base.ids import LedgerId, ZoneName


def known_batches_are_not_looked_at() -> Sequence[Patch]:
    def is_known(record: LogRecord, query: str, batch: int) -> bool:
        del record, query, batch
        return False

    return [(log_queries, "is_known", is_known)]


def a_publisher_claims_the_log() -> Sequence[Patch]:
    original = publishing._published

    async def published(
        client: Client, whole: WholeBatch, tries: publishing._Tries
    ) -> PublishedBatch:
        if whole.claim is not None:
            seen = await logs.find(client.cluster, whole.of.log)
            mark = log_record.LogWriterMark(token=whole.of.run.token, address=whole.of.run.token)
            token = None if seen.writer is None else seen.writer.token
            if token != mark.token:
                seen = await logs.claim(client.cluster, whole.of.log, seen, mark)
            claim = dataclasses.replace(whole.claim, epoch=seen.epoch)
            whole = dataclasses.replace(whole, claim=claim)
        return await original(client, whole, tries)

    return [(publishing, "_published", published)]


def attempts_are_collected_by_age_alone() -> Sequence[Patch]:
    original = orphans.of_record

    def of_record(
        record: LogRecord,
        first: LedgerId | None,
        ledger_id: LedgerId,
        stamp: LogStamp,
        *,
        has: bool,
    ) -> LogLedgerFate:
        if stamp.batch is not None and not has and stamp.log_id == record.id:
            return LogLedgerFate.ORPHAN
        return original(record, first, ledger_id, stamp, has=has)

    return [(orphans, "of_record", of_record)]


def a_batch_ahead_counts_as_published() -> Sequence[Patch]:
    original = log_queries.never_comes

    def never_comes(record: LogRecord, query: str, batch: int) -> bool:
        return original(record, query, batch - 1)

    return [(log_queries, "never_comes", never_comes)]


def a_lost_run_claims_again() -> Sequence[Patch]:
    original = log_queries.claimed

    def claimed(
        record: LogRecord, log_id: str, run: QueryRun, seen_epoch: int, zone: ZoneName | None = None
    ) -> LogChange:
        forgotten = tuple(
            dataclasses.replace(one, run="", lost_runs=()) if one.query == run.query else one
            for one in record.queries
        )
        if record.writer is not None and record.writer.token == run.token:
            forgotten = record.queries
        return original(
            dataclasses.replace(record, queries=forgotten), log_id, run, seen_epoch, zone
        )

    return [(log_queries, "claimed", claimed)]


def lower_ids_are_published() -> Sequence[Patch]:
    original = log_queries.published

    def published(record: LogRecord, claim: LogClaim, publication: Publication) -> LogChange:
        return original(dataclasses.replace(record, last_ledger=None), claim, publication)

    return [(log_queries, "published", published)]


def claims_are_not_looked_at() -> Sequence[Patch]:
    original = log_queries.published

    def published(record: LogRecord, claim: LogClaim, publication: Publication) -> LogChange:
        token = "" if record.writer is None else record.writer.token
        now = dataclasses.replace(claim, epoch=record.epoch, token=token)
        return original(record, now, publication)

    def check(record: LogRecord, claim: LogClaim) -> None:
        del record, claim

    return [(log_queries, "published", published), (log_record, "check_claim", check)]


def the_batch_is_not_noted() -> Sequence[Patch]:
    original = log_queries.published

    def published(record: LogRecord, claim: LogClaim, publication: Publication) -> LogChange:
        change = original(record, claim, publication)
        return dataclasses.replace(
            change, record=dataclasses.replace(change.record, queries=record.queries)
        )

    return [(log_queries, "published", published)]


def attempts_come_in_without_the_small_ones() -> Sequence[Patch]:
    original = publishing._published

    async def published(
        client: Client, whole: WholeBatch, tries: publishing._Tries
    ) -> PublishedBatch:
        return await original(client, dataclasses.replace(whole, small=whole.small[1:]), tries)

    return [(publishing, "_published", published)]


#: Those that the simulator finds, and within how many seeds.
_FOUND: Final = (
    (70, "a batch is not looked at before it is published", 60, known_batches_are_not_looked_at),
    (71, "a publisher claims the log", 60, a_publisher_claims_the_log),
    (72, "attempts are collected by age alone", 60, attempts_are_collected_by_age_alone),
    (73, "the batch ahead counts as published", 60, a_batch_ahead_counts_as_published),
    (74, "a run that lost the log claims it again", 60, a_lost_run_claims_again),
    (75, "a publication is made under any claim", 60, claims_are_not_looked_at),
    (76, "a batch that came in is not noted", 30, the_batch_is_not_noted),
    (77, "a small partition is left out", 30, attempts_come_in_without_the_small_ones),
)

QUERY_MUTANTS: Final = {
    number: Mutant(
        number=number, what=what, profile="queries", within_seeds=within_seeds, patches=patches
    )
    for number, what, within_seeds, patches in _FOUND
}
