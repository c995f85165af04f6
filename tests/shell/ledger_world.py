"""A small cluster of bookies as processes, and ``zonekeeper ledger`` called on it."""

import asyncio
import json
import os
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from click.testing import CliRunner, Result

from tests.support.bookie_processes import BookieProcesses, bookie_processes, make_cluster
from tests.support.ready_processes import SHELL
from zonekeeper.client.api import client as clients
from zonekeeper.placement.base.ids import BookieId, LedgerId, ZoneName
from zonekeeper.placement.policy.rules import PlacementRules, Policy
from zonekeeper.shell.commands.ledger import ledger

ZONES = {BookieId(f"bk-{zone}-0"): ZoneName(zone) for zone in "abc"}
TEXT = b"first\n\nthird, after an empty one\nlast"
#: What is started in the background may have interruptions switched off, and hand that on.
INTERRUPTIBLE = (
    sys.executable,
    "-c",
    "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "runpy.run_module('zonekeeper.shell', run_name='__main__')",
)


@contextmanager
def ledger_cluster(folder: Path) -> Iterator[BookieProcesses]:
    """Have three bookies, each in a zone of its own."""
    uri = f"sqlite://{folder / 'meta.db'}"
    zones = tuple(ZONES.values())
    asyncio.run(make_cluster(uri, Policy(placement=PlacementRules(zones=zones))))
    with bookie_processes(uri, folder, ZONES) as bookies:
        bookies.start()
        yield bookies


@contextmanager
def frozen(cluster: BookieProcesses, bookies: Iterable[BookieId]) -> Iterator[None]:
    """Have bookies stand still. None has the metadata locked then, which would stop all others."""
    pids = dict(zip(cluster.running(), cluster.pids(), strict=True))
    with closing(sqlite3.connect(cluster.address.removeprefix("sqlite://"), timeout=60)) as store:
        store.execute("BEGIN IMMEDIATE")
        for bookie in bookies:
            cluster.freeze(bookie)
            os.waitid(os.P_PID, pids[bookie], os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    try:
        yield
    finally:
        for bookie in bookies:
            cluster.thaw(bookie)


def call(
    address: str, *words: str, given: bytes = b"", env: dict[str, str] | None = None
) -> Result:
    return CliRunner().invoke(
        ledger, [*words, "--metadata", address], input=given, env=env, catch_exceptions=False
    )


def done(address: str, *words: str, given: bytes = b"") -> bytes:
    """Call it; it must succeed."""
    result = call(address, *words, given=given)
    assert result.exit_code == 0, result.output
    return result.stdout_bytes


def appended(address: str, given: bytes, *words: str) -> str:
    """Append to a new ledger, and give its number."""
    answer = json.loads(done(address, "append", *words, "-o", "json", given=given))
    return str(answer["ledger"])


def shown(address: str, number: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(done(address, "show", number, "-o", "json"))
    return found


def abandoned(address: str, count: int) -> str:
    """Leave a ledger with acknowledged entries as a process does that is killed."""

    async def made() -> LedgerId:
        async with clients.connect(address) as client:
            writer = await client.create()
            await writer.append_many(b"entry %d" % number for number in range(count))
            await writer.flush()
            writer.halt()
            return writer.ledger_id

    return str(asyncio.run(made()))


def by_sh(address: str, words: str, given: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    """Call it as a shell does, which has its own ways with streams."""
    command = f"{shlex.join(SHELL)} ledger {words}"
    env = {**os.environ, "ZONEKEEPER_METADATA": address}
    return subprocess.run(
        ["/bin/sh", "-c", command], input=given, env=env, capture_output=True, check=False
    )


@contextmanager
def appending(address: str) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """Start an append whose input does not end by itself; give it, and its ledger."""
    with subprocess.Popen(
        [*SHELL, "ledger", "append", "--metadata", address],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        try:
            yield process, process.stderr.readline().split()[1].decode()
        finally:
            process.kill()
