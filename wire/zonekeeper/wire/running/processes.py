"""Signals and errors of a process that serves until it is told to stop.

A signal becomes a call in the event loop. A trouble becomes one line that says what it is about.
"""

import asyncio
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from zonekeeper.placement.base.troubles import Refusal

_STOPS: Final = (signal.SIGTERM, signal.SIGINT)


def leave_no_core() -> None:
    """Let a crash of this process write no core file: its memory has passwords and private keys.

    Where the kernel gives cores to a program (``core_pattern`` begins with ``|``), it asks no limit
    of ours; that program is the machine's.
    """
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` at each SIGTERM and SIGINT that comes during the block."""
    loop = asyncio.get_running_loop()
    for number in _STOPS:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in _STOPS:
            loop.remove_signal_handler(number)


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Begin the message of an ``OSError`` with ``what``; a refusal keeps its class."""
    try:
        yield
    except OSError as error:
        kind = type(error) if isinstance(error, Refusal) else OSError
        raise kind(f"{what}: {error.strerror or error}") from error


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Give the first error of a group that is no group itself."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
