"""The note of a deletion is written with the removal of the record, and is read for ever."""

from collections.abc import Callable

import pytest

from tests.metadata.logs.records_of_logs import LOG_ID, NAME, NEW
from tests.metadata.parsers import INSTANCE
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.malformed import MalformedError
from zonekeeper.metadata.logs import deleted_logs, logs
from zonekeeper.metadata.logs.deleted_logs import DeletedLog

NOTE = DeletedLog(log_id=LOG_ID, name=NAME, at_ms=1_700_000_000_000)


def test_the_golden_note_is_read_and_written(golden: Callable[[str], bytes]) -> None:
    assert deleted_logs.parse(golden("deleted-log"), LOG_ID, INSTANCE) == NOTE
    assert deleted_logs.render(NOTE, INSTANCE) == golden("deleted-log")


async def test_a_note_is_written_when_the_record_goes_and_not_before(cluster: Cluster) -> None:
    await logs.create(cluster, NAME, NEW)
    await logs.begin_deletion(cluster, NAME, LOG_ID)
    assert await deleted_logs.find(cluster, LOG_ID) is None
    await logs.remove(cluster, NAME, LOG_ID, now_ms=NOTE.at_ms)
    await logs.remove(cluster, NAME, LOG_ID, now_ms=NOTE.at_ms + 1)
    assert await deleted_logs.find(cluster, LOG_ID) == NOTE
    assert [one async for one in deleted_logs.ids(cluster)] == [LOG_ID]
    await deleted_logs.forget(cluster, LOG_ID)
    await deleted_logs.forget(cluster, LOG_ID)
    assert await deleted_logs.find(cluster, LOG_ID) is None


async def test_a_damaged_note_is_no_proof(cluster: Cluster) -> None:
    where = deleted_logs.path(cluster, LOG_ID)
    await cluster.store.create(where, b"{}", make_parents=True)
    with pytest.raises(MalformedError, match="deleted-logs"):
        await deleted_logs.find(cluster, LOG_ID)
