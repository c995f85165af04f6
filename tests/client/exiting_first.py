"""Imported before the client: what is registered here runs as the process ends, after the flush."""

import atexit
from collections.abc import Callable
from typing import Final

#: Called as the process ends, after everything that the client does then.
LAST: Final[list[Callable[[], object]]] = []


def _run() -> None:
    for each in LAST:
        each()


atexit.register(_run)
