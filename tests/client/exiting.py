"""Programs that end inside the block of a blocking client. Each is run as a process of its own."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Final

from tests.client.exiting_first import LAST  # isort: skip  it is to be the first
from tests.client.lab import THREE_BY_THREE, Lab, policy
from zonekeeper.client.api import blocking
from zonekeeper.client.api.client import Client

ENTRIES: Final = 100
#: What a program keeps until its end, and leaves to the interpreter.
KEPT: Final[list[object]] = []


@asynccontextmanager
async def held(release_s: float | None) -> AsyncIterator[Client]:
    """Give a client of bookies that take entries only after a while, or never."""
    async with asyncio.TaskGroup() as tasks:
        lab = Lab(tasks, seed=1)
        await lab.build(policy(), THREE_BY_THREE)
        for machine in lab.machines.values():
            machine.doorway.holding = True
            if release_s is not None:
                asyncio.get_running_loop().call_later(release_s, machine.doorway.release)
        async with lab.client() as made:
            yield made
        await lab.close()


def appended(release_s: float | None) -> blocking.Writer:
    """Append inside a block that is never left."""
    stack = ExitStack()
    writer = stack.enter_context(blocking.over(held(release_s))).create()
    writer.append_many([b"entry"] * ENTRIES)
    KEPT.extend([stack, writer])
    return writer


def say(text: object) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def entries_on_their_way_are_waited_for() -> None:
    writer = appended(1.0)
    say(writer.last_confirmed)
    LAST.append(lambda: say(writer.last_confirmed))


def entries_that_nobody_takes_are_named() -> None:
    writer = appended(None)
    say(writer.last_confirmed)
    LAST.append(lambda: say(writer.last_confirmed))


def a_forked_child_waits_for_nothing() -> None:
    writer = appended(None)
    child = os.fork()
    if child == 0:
        sys.exit(0)
    say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    writer.halt()


PROGRAMS: Final[dict[str, Callable[[], None]]] = {
    program.__name__: program
    for program in (
        entries_on_their_way_are_waited_for,
        entries_that_nobody_takes_are_named,
        a_forked_child_waits_for_nothing,
    )
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
