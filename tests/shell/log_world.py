"""``zonekeeper log`` called on a small cluster of bookies as processes."""

import asyncio
import json
from functools import partial

from click.testing import CliRunner, Result

from tests.support import raw_sockets
from zonekeeper.log import LogMessage, connect
from zonekeeper.log.base.log_figures import LogWriterFigures
from zonekeeper.shell.logs.commands import log


def call(
    address: str, *words: str, given: bytes = b"", env: dict[str, str] | None = None
) -> Result:
    return CliRunner().invoke(
        log, [*words, "--metadata", address], input=given, env=env, catch_exceptions=False
    )


def done(address: str, *words: str, given: bytes = b"") -> bytes:
    """Call it; it must succeed."""
    result = call(address, *words, given=given)
    assert result.exit_code == 0, result.output
    return result.stdout_bytes


def refused(address: str, *words: str, given: bytes = b"") -> str:
    """Call it; it must be refused, and say why in its last line."""
    result = call(address, *words, given=given)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.stderr
    return result.stderr


def data(address: str, *words: str, given: bytes = b"") -> dict[str, object]:
    """Call it for data; it must succeed."""
    found: dict[str, object] = json.loads(done(address, *words, "-o", "json", given=given))
    return found


def lines(address: str, *words: str) -> list[dict[str, object]]:
    """Call it for an object a line."""
    return [json.loads(line) for line in done(address, *words, "-o", "json").splitlines()]


def _has_rotated(figures: LogWriterFigures, times: int) -> bool:
    return figures.rotations_total == times


def filled(address: str, name: str, count: int, *rules: str) -> None:
    """Make a log with messages ``message 0`` and on, each of them a batch of its own.

    A full ledger takes messages until the next one is made. Here each rotation is waited for, so
    that every ledger has as many messages as the rules say.
    """
    done(address, "create", name, *rules)

    async def fill() -> None:
        async with connect(address) as logs, logs.writer(name) as writer:
            figures = logs.figures.writers
            every = (await logs.record(name)).rules.rotate_messages
            for number in range(count):
                await writer.append_and_wait(
                    LogMessage(payload=b"message %d" % number), stored=True
                )
                rotations, rest = divmod(number + 1, every)
                if rest == 0:
                    await raw_sockets.until(partial(_has_rotated, figures, rotations))

    asyncio.run(fill())
