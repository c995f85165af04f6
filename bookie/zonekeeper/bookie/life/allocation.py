"""The memory of a bookie's process: freed memory is kept for the next message.

A bookie handles messages of a MiB, one after the other. By default glibc takes the memory for each
message from the kernel and gives it back afterwards, and the kernel clears every page of it again.
That costs two fifths of the CPU time of a bookie that serves reads. So glibc is told to keep the
memory. The process then does not shrink fully: each arena keeps up to ``KEPT_BYTES``.

With another C library nothing changes.
"""

import ctypes
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
