"""How much memory something takes: a bound on the allocations of a block."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def peak_below(limit_bytes: int) -> Iterator[None]:
    """Fail if what the block holds at any one time is this much or more."""
    tracemalloc.start()
    try:
        yield
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < limit_bytes
