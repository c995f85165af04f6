"""Files that tell when they are closed under a thread, or used after they were closed."""

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from zonekeeper.bookie.disk.files import RealFile

T = TypeVar("T")

CALLS = ("size", "read", "read_into", "write", "allocate", "truncate", "sync")
#: What ``told`` is given begins so.
CLOSED = "closed under a thread"


def plant(told: Callable[[str], None]) -> Callable[[], None]:
    """Watch all real files of this process; give a function that ends that."""
    lock = threading.Lock()
    inside: dict[int, list[str]] = {}
    closed: set[int] = set()
    originals = {name: getattr(RealFile, name) for name in (*CALLS, "close")}

    def watched(name: str, call: Callable[..., T]) -> Callable[..., T]:
        @functools.wraps(call)
        def method(file: RealFile, *given: object) -> T:
            with lock:
                inside.setdefault(id(file), []).append(name)
                if id(file) in closed:
                    told(f"{CLOSED}: {name} of {file.name}, which was closed before")
            try:
                return call(file, *given)
            finally:
                with lock:
                    inside[id(file)].remove(name)

        return method

    def close(file: RealFile) -> None:
        with lock:
            for name in inside.get(id(file), ()):
                told(f"{CLOSED}: {file.name}, in the middle of a {name}")
            closed.add(id(file))
            _kept.append(file)  # else another file gets its id
        originals["close"](file)

    for name in CALLS:
        setattr(RealFile, name, watched(name, originals[name]))
    setattr(RealFile, "close", close)  # noqa: B010 for mypy it is a method

    def end() -> None:
        for name, original in originals.items():
            setattr(RealFile, name, original)
        _kept.clear()

    return end


_kept: list[RealFile] = []


@contextmanager
def watched() -> Iterator[list[str]]:
    """Watch all real files of this process, and give what is told of them."""
    said: list[str] = []
    end = plant(said.append)
    try:
        yield said
    finally:
        end()
