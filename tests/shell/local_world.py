"""Local clusters for tests: called as the command is, and never left running."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner, Result

from zonekeeper.shell.commands.local import local


class LocalWorld:
    """One folder, and the command on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def call(self, *words: str) -> Result:
        """Call ``zonekeeper local``, and give what came of it; no row is too wide for its line."""
        return CliRunner(env={"COLUMNS": "200"}).invoke(
            local, [*words, "--folder", str(self.folder)], catch_exceptions=False
        )

    def data(self, *words: str) -> dict[str, object]:
        """Call it for data; it must succeed."""
        result = self.call(*words, "--output", "json")
        assert result.exit_code == 0, result.output
        found: dict[str, object] = json.loads(result.stdout)
        return found

    def bookies(self) -> dict[str, dict[str, object]]:
        """Give the status of each bookie."""
        listed = self.data("status")["bookies"]
        assert isinstance(listed, list)
        return {bookie["id"]: bookie for bookie in listed}

    def autorecovery(self) -> dict[str, dict[str, object]]:
        """Give the status of each autorecovery process."""
        listed = self.data("status")["autorecovery"]
        assert isinstance(listed, list)
        return {process["name"]: process for process in listed}

    def column(self, name: str) -> dict[str, object]:
        """Give one thing of each bookie."""
        return {bookie: found[name] for bookie, found in self.bookies().items()}


@contextlib.contextmanager
def local_world(folder: Path) -> Iterator[LocalWorld]:
    """Give a world whose processes end with the test."""
    world = LocalWorld(folder)
    try:
        yield world
    finally:
        world.call("down", "--purge")


def processes_with(text: str) -> list[int]:
    """Find the processes, this one aside, whose command line holds a text."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if text.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found
