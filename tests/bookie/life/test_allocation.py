"""What a bookie frees is not given back to the kernel only to be asked for again."""

import gc
import subprocess
import sys
from typing import Final

import pytest

from zonekeeper.bookie.life import allocation

#: Messages as a reader from behind has them, several at once, and the pages that they cost.
_MESSAGES: Final = """
import resource
from zonekeeper.bookie.life import allocation
if not allocation.keep_freed():
    raise SystemExit("another C library")
def handle():
    return b"".join([bytes(1 << 20) for _ in range(4)])
handle()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    handle()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
_PAGES_OF_ALL: Final = 100 * (8 << 20) // 4096


def test_messages_come_out_of_memory_that_is_there() -> None:
    command = [sys.executable, "-c", _MESSAGES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "another C library" in done.stderr:
        pytest.skip("malloc cannot be told")
    assert not done.returncode, done.stderr
    assert int(done.stdout) < _PAGES_OF_ALL // 50


def test_the_collector_of_garbage_rests_while_a_start_reads_and_passes_over_what_was_read() -> None:
    assert gc.isenabled()
    before, kept = gc.get_freeze_count(), list[list[object]]()
    try:
        with allocation.reading_in():
            assert not gc.isenabled()
            kept += [[] for _ in range(1_000)]
        assert gc.isenabled()
        assert gc.get_freeze_count() >= before + len(kept)
    finally:
        gc.unfreeze()


def test_the_collector_goes_on_after_a_start_that_failed() -> None:
    try:
        with pytest.raises(OSError, match="no room"), allocation.reading_in():
            raise OSError("no room")
        assert gc.isenabled()
    finally:
        gc.unfreeze()
