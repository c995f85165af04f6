"""Programs that end inside the block of a log's writer. Each is run as a process of its own."""

import asyncio
import os
import random
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Final

from tests.client.exiting_first import LAST  # isort: skip  it is to be the first
from tests.client.exiting import KEPT, say
from tests.client.lab import THREE_BY_THREE, Lab, policy
from tests.log.logging_lab import NAME, WallClock, numbers
from zonekeeper.client.api.client import Surroundings
from zonekeeper.log import blocking
from zonekeeper.log.api.blocking_writer import BlockingLogWriter
from zonekeeper.log.api.log_client import LogClient

MESSAGES: Final = 100
LABS: Final[list[Lab]] = []


@asynccontextmanager
async def lab_logs() -> AsyncIterator[LogClient]:
    async with asyncio.TaskGroup() as tasks:
        lab = Lab(tasks, seed=1)
        LABS.append(lab)
        await lab.build(policy(), THREE_BY_THREE)
        async with lab.client() as made:
            yield LogClient(made, Surroundings(random.Random(1), WallClock()))
        await lab.close()


async def hold(release_s: float | None) -> None:
    """Let bookies take entries only after a while, or (None) never."""
    [lab] = LABS
    for machine in lab.machines.values():
        machine.doorway.holding = True
        if release_s is not None:
            asyncio.get_running_loop().call_later(release_s, machine.doorway.release)


def appended(release_s: float | None) -> BlockingLogWriter:
    """Append inside blocks that are never left."""
    stack = ExitStack()
    logs = stack.enter_context(blocking.over(lab_logs()))
    logs.create(NAME)
    writer = stack.enter_context(logs.writer(NAME))
    logs._calls.do(lambda: hold(release_s))
    writer.append_many(numbers(0, MESSAGES))
    KEPT.extend([stack, writer])
    return writer


def messages_on_their_way_are_waited_for() -> None:
    writer = appended(1.0)
    say(writer.first_unstored)
    LAST.append(lambda: say(writer.first_unstored))


def messages_that_nobody_takes_are_named() -> None:
    writer = appended(None)
    say(writer.first_unstored)
    LAST.append(lambda: say(writer.first_unstored))


def a_forked_child_waits_for_nothing() -> None:
    appended(1.0)
    child = os.fork()
    if child == 0:
        sys.exit(0)
    say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


PROGRAMS: Final[dict[str, Callable[[], None]]] = {
    program.__name__: program
    for program in (
        messages_on_their_way_are_waited_for,
        messages_that_nobody_takes_are_named,
        a_forked_child_waits_for_nothing,
    )
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
