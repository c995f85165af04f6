"""A log after an export was imported: the steps of docs/log-streams.md, with real bookies."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.faults.test_set_back_metadata import INTERVAL_MS, rounds
from tests.shell.ledger_world import ZONES
from tests.shell.log_world import call, data, done, filled, lines
from tests.support.bookie_processes import BookieProcesses, bookie_processes, make_cluster
from zonekeeper.bookie.commands import bookie as bookie_commands
from zonekeeper.log import LogMessage, connect
from zonekeeper.metadata.commands import saving
from zonekeeper.placement.policy.rules import PlacementRules, Policy

pytestmark = pytest.mark.processes

NAME = "lost/imported"


class Dies(Exception):
    """It ends a writer."""


@pytest.fixture
def bookies(tmp_path: Path) -> Iterator[BookieProcesses]:
    """Have three bookies that collect at once what the root does not know."""
    uri = f"sqlite://{tmp_path / 'meta.db'}"
    zones = tuple(ZONES.values())
    asyncio.run(make_cluster(uri, Policy(placement=PlacementRules(zones=zones))))
    flags = {"--gc-interval": f"{INTERVAL_MS}ms"}
    with bookie_processes(uri, tmp_path, ZONES, flags=flags) as processes:
        processes.start()
        yield processes


def metadata(address: str, *words: str) -> str:
    """Call `zonekeeper metadata`; it must succeed."""
    words = (*words, "--metadata", address)
    result = CliRunner().invoke(saving.metadata, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def hints(bookies: BookieProcesses, folder: Path) -> Sequence[str]:
    """Write down what the disks of stopped bookies say."""
    files = [str(folder / f"{name}.hints") for name in ZONES]
    for name, file in zip(ZONES, files, strict=True):
        words = ("export-hints", "--data", str(bookies.data(name)), file)
        result = CliRunner().invoke(bookie_commands.bookie, words, catch_exceptions=False)
        assert result.exit_code == 0, result.output
    return files


def written_and_left_open(address: str, first: int, count: int) -> None:
    """Write messages, each of them acknowledged; the writer dies and leaves the log open."""

    async def write() -> None:
        async with connect(address) as log, log.writer(NAME) as writer:
            for number in range(first, first + count):
                message = LogMessage(payload=b"message %d" % number)
                await writer.append_and_wait(message, stored=True)
            raise Dies

    with pytest.raises(Dies):
        asyncio.run(write())


def test_nothing_acknowledged_is_lost_when_an_older_export_is_imported(
    bookies: BookieProcesses, tmp_path: Path
) -> None:
    address, saved = bookies.address, str(tmp_path / "saved.jsonl")
    filled(address, NAME, 15, "--rotate-messages", "10")
    metadata(address, "export", saved)
    done(address, "append", NAME, "--payload", "message 15")
    written_and_left_open(address, 16, 15)
    whole = b"".join(b"message %d\n" % number for number in range(31))
    before = data(address, "show", NAME)

    # The metadata is lost, and the export, which is older than the log, is all that there is.
    for name in ZONES:
        bookies.kill(name)
    for path in tmp_path.glob("meta.db*"):
        path.unlink()
    metadata(address, "import", saved)
    files = hints(bookies, tmp_path)

    # First the mark is decided on: `metadata rebuild` finds the ledgers that the root lacks.
    metadata(address, "rebuild", *files, "--write", "--yes")
    bookies.start()
    assert "marked as restored" in metadata(address, "restored")
    held = call(address, "append", NAME, "--payload", "too early")
    assert (held.exit_code, "restored" in held.stderr) == (1, True), held.output
    metadata(address, "restored", "--clear", "all ledgers are rebuilt", "--yes")
    asyncio.run(rounds(bookies))
    assert len(lines(address, "read", NAME)) == 15, "the record is an old one"

    # Then the log is rebuilt, before a writer opens it.
    rebuilt = data(address, "rebuild", NAME, "--yes")

    assert (rebuilt["id"], rebuilt["leftOut"]) == (before["id"], [])
    assert done(address, "read", NAME) == whole
    after = data(address, "show", NAME)
    assert after["rules"] == before["rules"], "rules of the old record stay"
    done(address, "append", NAME, "--payload", "message 31")
    assert [one["sequence"] for one in lines(address, "read", NAME)] == list(range(32))
