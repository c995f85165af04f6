"""``--dry-run`` needs no ``--reason``, because nothing is done; every other order needs one."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.shell.live_world import LiveWorld
from tests.shell.test_comfort import live_commands
from zonekeeper.shell.commands.autorecovery import autorecovery
from zonekeeper.shell.commands.bookies import bookies
from zonekeeper.shell.commands.maintenance import maintenance
from zonekeeper.shell.main import main


def planned() -> list[tuple[str, click.Command]]:
    """Give the commands that take a reason, and can be tried."""
    found = []
    for words, command in live_commands():
        options = {name for one in command.params for name in one.opts}
        if {"--reason", "--dry-run"} <= options:
            found.append((words, command))
    return found


def needed(command: click.Command) -> list[str]:
    """Give something for each parameter that the command requires."""
    words = []
    for one in command.params:
        if one.required and one.name != "address":
            value = "30m" if one.name == "lasts_ms" else "x"
            words += [one.opts[0], value] if isinstance(one, click.Option) else [value]
    return words


@pytest.mark.parametrize(("words", "command"), planned(), ids=str)
def test_s150_a_reason_is_required_unless_nothing_is_done(
    words: str, command: click.Command
) -> None:
    typed = [*words.split(), *needed(command), "--metadata", "sqlite:///no/such/folder/meta.db"]
    refused = CliRunner().invoke(main, typed)
    assert refused.exit_code == 2
    assert "Missing option '--reason'" in refused.stderr
    tried = CliRunner().invoke(main, [*typed, "--dry-run"])
    assert "--reason" not in tried.stderr


def test_some_commands_are_tried() -> None:
    assert {"autorecovery release", "bookies recover", "maintenance start"} <= {
        words for words, _ in planned()
    }


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (autorecovery, ("release", "--zone", "a", "--force")),
        (autorecovery, ("disable",)),
        (bookies, ("recover", "bk-a-0")),
        (maintenance, ("start", "--zone", "b", "--for", "30m")),
    ],
)
def test_s150_a_dry_run_without_a_reason_changes_nothing(
    live_world: LiveWorld, command: click.Command, words: tuple[str, ...]
) -> None:
    live_world.build(lost="a")
    result = live_world.call(command, *words, "--dry-run")
    assert result.exit_code == 0, result.output
    assert live_world.told() == []


@pytest.fixture
def live_world(tmp_path: Path) -> LiveWorld:
    return LiveWorld(tmp_path)
