"""The memory of a bookie's process: what is freed is kept, and what is kept is passed over.

Freed memory is kept for the next message.

A bookie handles messages of a MiB, one after the other. By default glibc takes the memory for each
message from the kernel and gives it back afterwards, and the kernel clears every page of it again.
That costs two fifths of the CPU time of a bookie that serves reads. So glibc is told to keep the
memory. The process then does not shrink fully: each arena keeps up to ``KEPT_BYTES``.

With another C library nothing changes.

The ledgers that a start reads stay for the life of the process, and a million of them are five
million objects. Python's collector of garbage cycles looks at all objects again and again while
their number grows, and at a later full collection once more: the event loop stands still meanwhile,
for seconds. So it rests while a start reads, and passes over what was read.
"""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: The largest block that is taken from kept memory; glibc allows no larger value.
BLOCK_BYTES_MAX: Final = 32 << 20
#: The most free memory that an arena keeps.
KEPT_BYTES: Final = 128 << 20
#: The most arenas, which all threads share. Each keeps memory of its own.
ARENAS_MAX: Final = 2

# From malloc.h.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8


def keep_freed() -> bool:
    """Make glibc keep freed memory from now on; False: the C library cannot."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    settings = {
        _MMAP_THRESHOLD: BLOCK_BYTES_MAX,
        _TRIM_THRESHOLD: KEPT_BYTES,
        _ARENA_MAX: ARENAS_MAX,
    }
    return all(mallopt(name, value) == 1 for name, value in settings.items())


@contextmanager
def reading_in() -> Iterator[None]:
    """Let the collector of garbage rest, and pass over all objects that there are at the end."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
