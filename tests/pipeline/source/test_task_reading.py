"""A task says what it read in its zone; the rest of its reading is in ``test_planning``."""

import logging

import pytest

from zonekeeper.pipeline.base.worker_client import KeptClients
from zonekeeper.pipeline.source import task_reading


def test_a_task_says_how_many_bytes_came_from_its_zone_also_if_it_fails(
    pipeline_root: str, caplog: pytest.LogCaptureFixture
) -> None:
    clients = KeptClients()
    kept = clients.get(pipeline_root)
    counters = kept.ledgers.counters
    counters.bytes_read_local = 100

    def task() -> None:
        with task_reading.counted(kept):
            counters.bytes_read_local += 5
            counters.bytes_read_remote += 7
            raise ZeroDivisionError

    with caplog.at_level(logging.INFO), pytest.raises(ZeroDivisionError):
        task()
    clients.close()

    assert "a task has read 5 bytes in its zone, and 7 beyond it" in caplog.messages
