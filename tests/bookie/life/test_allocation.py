"""What a bookie frees is not given back to the kernel only to be asked for again."""

import subprocess
import sys
from typing import Final

import pytest

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
