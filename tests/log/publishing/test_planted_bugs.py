"""Bugs of queries, each planted in the real code, and the test that it fails.

A test passes with the real code where it stands, and fails here.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import pytest

from tests.log import planted
from tests.log.publishing import (
    test_leftovers,
    test_publishing,
    test_rebuilt_batches,
)
from tests.metadata.logs import test_log_queries
from tests.simulation import query_mutants
from tests.simulation.patching import Patch
from zonekeeper.client.api.writer import Writer
from zonekeeper.log.formats import manifests
from zonekeeper.log.formats.manifests import Manifest
from zonekeeper.log.publishing import attempt_writing, partitions
from zonekeeper.log.publishing.attempt_writing import AttemptWriter
from zonekeeper.log.publishing.partitions import BatchPart, WholeBatch
from zonekeeper.log.sessions import locating, rebuilding, rebuilt_ends
from zonekeeper.log.sessions.chain import LedgerChain
from zonekeeper.metadata.formats.log_record import LogLedger, LogRecord
from zonekeeper.placement.base.ids import EntryId, LedgerId


def _two_attempts_of_a_partition_count() -> Sequence[Patch]:
    original = partitions.together

    def together(parts: Iterable[BatchPart | None]) -> WholeBatch | None:
        given = list(parts)
        one = {part.partition: part for part in given if part is not None}
        return original(one.values())

    return [(partitions, "together", together)]


def _the_manifest_is_not_the_last_entry() -> Sequence[Patch]:
    original = Writer.append_many

    async def append_many(
        self: Writer,
        many: Iterable[bytes],
        timeout: float | None = None,  # noqa: ASYNC109 as in the product
    ) -> EntryId:
        entries = list(many)
        if len(entries) > 2 and manifests.is_manifest(entries[-1]):
            entries = [entries[0], entries[-1], *entries[1:-1]]
        return await original(self, entries, timeout)

    return [(Writer, "append_many", append_many)]


def _queries_are_not_rebuilt() -> Sequence[Patch]:
    def noted(record: LogRecord, manifest: Manifest) -> LogRecord:
        del manifest
        return record

    return [(rebuilt_ends, "_noted", noted)]


def _a_manifest_ledger_in_part_counts() -> Sequence[Patch]:
    return [
        (manifests, "is_manifest", lambda raw: True),
        (
            rebuilding,
            "_manifest",
            lambda *_: Manifest(
                query="q", run="r1", batch=1, is_job=False, messages=2, attempts=()
            ),
        ),
    ]


def _any_entry_is_taken_for_a_manifest() -> Sequence[Patch]:
    def is_manifest(ledger: LogLedger, entry_id: EntryId, raw: bytes) -> bool:
        del ledger, entry_id
        return manifests.is_manifest(raw)

    return [(locating, "is_manifest", is_manifest)]


def _attempts_take_any_id() -> Sequence[Patch]:
    async def apart(self: LedgerChain, above: LedgerId | None) -> Writer:
        del above
        return await self._created()

    return [(LedgerChain, "apart", apart)]


def _known_batches_are_written_again() -> Sequence[Patch]:
    original = AttemptWriter._begin

    async def begin(self: AttemptWriter) -> None:
        await original(self)
        self._is_known = False

    return [(AttemptWriter, "_begin", begin)]


def _small_partitions_have_no_bound() -> Sequence[Patch]:
    return [(attempt_writing, "SMALL_BYTES_MAX", 1 << 30)]


SHOWN_BY: Final[dict[str, tuple[Callable[[], Sequence[Patch]], Callable[[], None]]]] = {
    "a batch is not looked at": (
        query_mutants.known_batches_are_not_looked_at,
        test_publishing.test_a_batch_that_is_published_again_is_discarded,
    ),
    "a publisher claims": (
        query_mutants.a_publisher_claims_the_log,
        test_publishing.test_a_query_and_an_application_cannot_write_at_once,
    ),
    "attempts are collected by age": (
        query_mutants.attempts_are_collected_by_age_alone,
        test_leftovers.test_attempts_that_lost_go_once_their_batch_is_published_and_not_before,
    ),
    "the batch ahead counts as published": (
        query_mutants.a_batch_ahead_counts_as_published,
        test_log_queries.test_what_never_comes_is_what_is_published_and_no_more,
    ),
    "a lost run claims again": (
        query_mutants.a_lost_run_claims_again,
        test_publishing.test_a_new_run_takes_the_log_and_a_lost_run_never_takes_it_back,
    ),
    "any claim publishes": (
        query_mutants.claims_are_not_looked_at,
        test_publishing.test_a_query_and_an_application_cannot_write_at_once,
    ),
    "a lower id is published": (
        query_mutants.lower_ids_are_published,
        partial(test_log_queries.test_no_ledger_of_a_batch_comes_in_below_the_last_one, 4),
    ),
    "the batch is not noted": (
        query_mutants.the_batch_is_not_noted,
        test_publishing.test_a_batch_that_is_published_again_is_discarded,
    ),
    "a small partition is left out": (
        query_mutants.attempts_come_in_without_the_small_ones,
        test_publishing.test_large_partitions_come_in_as_ledgers_and_small_ones_in_that_of_the_manifest,
    ),
    "two attempts of a partition count": (
        _two_attempts_of_a_partition_count,
        test_publishing.test_parts_that_make_no_batch_are_refused_in_words,
    ),
    "the manifest is not the last entry": (
        _the_manifest_is_not_the_last_entry,
        test_publishing.test_large_partitions_come_in_as_ledgers_and_small_ones_in_that_of_the_manifest,
    ),
    "queries are not rebuilt": (
        _queries_are_not_rebuilt,
        test_rebuilt_batches.test_batches_and_what_the_record_says_of_queries_are_made_anew,
    ),
    "a manifest ledger in part counts": (
        _a_manifest_ledger_in_part_counts,
        test_rebuilt_batches.test_a_manifest_ledger_without_its_manifest_never_counts,
    ),
    "any entry is taken for a manifest": (
        _any_entry_is_taken_for_a_manifest,
        test_publishing.test_a_manifest_stands_at_the_end_of_its_ledger_and_nowhere_else,
    ),
    "attempts take any id": (
        _attempts_take_any_id,
        test_publishing.test_no_ledger_is_made_below_the_last_one_of_the_log_or_of_the_batch,
    ),
    "known batches are written again": (
        _known_batches_are_written_again,
        test_publishing.test_the_next_run_writes_nothing_for_a_batch_that_the_log_has,
    ),
    "small partitions have no bound": (
        _small_partitions_have_no_bound,
        test_publishing.test_a_part_is_small_up_to_its_bound,
    ),
}


@pytest.mark.simulation
@pytest.mark.parametrize("name", SHOWN_BY)
def test_a_planted_bug_of_queries_fails_its_test(name: str) -> None:
    planted.check_is_seen(*SHOWN_BY[name])
