"""The memory of a bookie's process: what is freed is kept for the next message.

A bookie handles messages of a MiB, one after the other, for ever. As it comes, glibc takes each
such block from the kernel and gives it back, and the kernel clears every page of it anew: two
fifths of the CPU time of a bookie that is read from. Told to keep them, the process stays as large
as it once was, by ``KEPT_BYTES`` at most in each arena.

Where the C library is another one, nothing happens.
"""

import ctypes
from typing import Final

#: Blocks up to this size come from memory that is kept; glibc allows no more.
BLOCK_BYTES_MAX: Final = 32 << 20
#: So much free memory is kept.
KEPT_BYTES: Final = 128 << 20
#: Threads share so many arenas: each keeps memory of its own.
ARENAS_MAX: Final = 2

# From malloc.h.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8


def keep_freed() -> bool:
    """Have freed memory kept from now on; say whether the C library knows how."""
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
