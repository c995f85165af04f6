"""Work that is done again until the store has answered: what the log says of it."""

import logging

import pytest

from tests.support import virtual_time
from zonekeeper.metadata.store.errors import StoreUnavailableError
from zonekeeper.replication.view import listing


@virtual_time.played
async def test_the_first_failure_of_some_work_is_told_and_the_retries_are_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    left = 5

    async def work() -> str:
        nonlocal left
        if left:
            left -= 1
            raise StoreUnavailableError("is away", store="zk", path="/x", maybe_applied=False)
        return "done"

    assert await listing.until_done(work, "the look") == "done"
    (told,) = caplog.messages
    assert told.startswith("the look: tried again in ")
