"""What readers count: messages, bytes, lag, and starts that they were behind."""

import pytest

from tests.client.lab import Lab, played
from tests.log.api.test_log_client import connected, fill, sequences
from tests.log.api.test_store_away import drained
from tests.log.logging_lab import NAME, SHORT
from zonekeeper.log.base.errors import LogTrimmed
from zonekeeper.log.base.log_figures import OfCursor, OfLog


@played()
async def test_readers_of_a_client_count_what_they_read(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await log.create("other")
        await fill(log, 25)
        await fill(log, 3, "other")
        figures, of_log = log.figures.readers, OfLog(NAME)
        assert await sequences(log) == list(range(25))
        first = await log.reader(NAME).at_sequence(20)
        await drained(log.reader(NAME).read(first))
        await sequences(log, "other")
        assert figures.messages == {of_log: 30, OfLog("other"): 3}
        held = await log.cursor(NAME, "billing")
        assert await held.lag() == 25
        async for many in held.read():
            await held.move(many)
            break
        assert await held.lag() == 24
        assert figures.messages[of_log] == 31
        assert figures.lag_now == {OfCursor(NAME, "billing"): 24}
        assert figures.bytes[of_log] > 31 * len(b"message 0")
        await log.trim(NAME, 15)
        assert not figures.trimmed
        for behind in (held.read(), log.reader(NAME).read(next(iter(many)).id)):
            with pytest.raises(LogTrimmed):
                await drained(behind)
        assert figures.trimmed == {of_log: 2}
        page = log.figures.render()
        for line in (
            f'zonekeeper_log_readers_messages_total{{log="{NAME}"}} 31',
            f'zonekeeper_log_readers_trimmed_total{{log="{NAME}"}} 2',
            f'zonekeeper_log_readers_lag{{log="{NAME}",cursor="billing"}} 24',
        ):
            assert line in page.splitlines()
