"""Nothing that has to be done is done by an assert: ``python -O`` leaves those out."""

import subprocess
import sys
from typing import Final

from tests.support.checkout_root import ROOT

#: A writer dies; the ledger is recovered, and its entries are written back. In virtual time.
RECOVERY: Final = """
from tests.client.lab import Lab, play

async def scenario(lab: Lab) -> None:
    async with lab.client() as first, lab.client("other") as second:
        writer = await first.create()
        await writer.append_many([b"x"] * 3)
        await writer.flush()
        writer.halt()
        reader = await second.open(writer.ledger_id, recover=True)
        print(__debug__, reader.metadata.last_entry)

play(scenario)
"""


def test_a_ledger_is_recovered_where_asserts_are_left_out() -> None:
    done = subprocess.run(
        [sys.executable, "-O", "-c", RECOVERY],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.stdout, done.stderr) == ("False 2\n", "")
