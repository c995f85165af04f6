"""Children that use the blocking client, and a process that has some before it uses one itself."""

import os
import signal
import sys
from collections.abc import Callable

from tests.client.patience import PATIENT
from zonekeeper.client.api import blocking

LIMIT_S = 300


def in_a_fork(work: Callable[[], bool]) -> bool:
    """Do something in a forked child; say whether it was true there."""
    child = os.fork()
    if child == 0:
        signal.alarm(LIMIT_S)  # a child that hangs ends
        held = False
        try:
            held = work()
        finally:
            os._exit(0 if held else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def writes_and_reads(address: str) -> bool:
    with blocking.connect(address, PATIENT) as client:
        with client.create() as writer:
            writer.append_many(b"%d" % number for number in range(1_000))
        found = client.open(writer.ledger_id).read_entries()
        return [entry.payload for entry in found] == [b"%d" % number for number in range(1_000)]


def main(address: str) -> bool:
    both = [in_a_fork(lambda: writes_and_reads(address)) for _ in range(2)]
    return all(both) and writes_and_reads(address)


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1]) else 1)
