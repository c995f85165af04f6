"""The bookie's commands at a terminal: help with examples, paths from anywhere, pipes."""

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.bookie.tools.places import BOOKIE
from tests.bookie.tools.test_several_folders import Wide
from zonekeeper.bookie.commands import bookie
from zonekeeper.metadata.commands import exits


def leaves(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name, inner in sorted(command.commands.items()):
        yield from leaves(inner, f"{path} {name}")


ALL = list(leaves(bookie.bookie, "bookie"))


def test_these_are_all_commands() -> None:
    assert len(ALL) == 14


@pytest.mark.parametrize(("words", "command"), ALL, ids=[words for words, _ in ALL])
def test_a_command_has_an_example_that_can_be_typed_and_help_for_each_option(
    words: str, command: click.Command
) -> None:
    assert command.epilog is not None
    assert command.epilog.startswith(f"Example: zonekeeper {words} ")
    typed = shlex.split(command.epilog)[2 + len(words.split()) :]
    command.make_context(words, typed, resilient_parsing=False)
    for option in command.params:
        assert not isinstance(option, click.Option) or option.help, option.name


def test_folders_may_be_typed_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = Wide(tmp_path)
    wide.initialise()
    assert wide.format().exit_code == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    order = ("cookie", "replace-disk", "--id", BOOKIE, "--metadata", wide.metadata, "--yes")

    shutil.rmtree(wide.journal)
    journal = wide.call(*order, "--data", "../data", "--folder", "../journal")
    assert journal.exit_code == 0, journal.output
    for folder in (wide.data, wide.journal, *wide.ledger_dirs):
        shutil.rmtree(folder)
    everything = wide.call(*order, "--data", "../data")
    assert everything.exit_code == 0, everything.output


def test_a_pipe_that_is_closed_is_no_trouble_of_the_disk() -> None:
    """The program that hosts the commands ends quietly then."""
    with pytest.raises(BrokenPipeError), exits.reported():
        raise BrokenPipeError
