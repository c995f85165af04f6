"""The top command hosts what components publish, and survives what is not installed."""

import subprocess
import sys
from importlib import metadata
from importlib.metadata import EntryPoint
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from zonekeeper.shell.hosting import hosting
from zonekeeper.shell.main import main

HELLO = """
import click
@click.command()
def commands():
    "Say hello."
    click.echo("hello")
"""


def host(*points: tuple[str, str]) -> hosting.CommandHost:
    return hosting.CommandHost(
        published=[EntryPoint(name, value, hosting.GROUP) for name, value in points]
    )


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose modules can be imported; each test takes names of its own."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]])
def test_bare_it_shows_its_help(arguments: list[str]) -> None:
    found = CliRunner().invoke(main, arguments)

    assert found.exit_code == 0
    assert "Usage: " in found.stdout
    assert "placement" in found.stdout


def test_a_published_command_is_listed_and_runs(written: Path) -> None:
    (written / "greets.py").write_text(HELLO)
    top = host(("greet", "greets:commands"))

    assert "Say hello." in CliRunner().invoke(top).stdout
    assert CliRunner().invoke(top, ["greet"]).stdout == "hello\n"


def test_nothing_is_loaded_for_a_command_that_is_not_called(written: Path) -> None:
    (written / "greets_too.py").write_text(HELLO)
    (written / "breaks.py").write_text("raise AssertionError('loaded')")
    top = host(("greet", "greets_too:commands"), ("other", "breaks:commands"))

    assert CliRunner().invoke(top, ["greet"]).stdout == "hello\n"


def test_a_missing_library_is_told_with_the_extra_that_brings_it(written: Path) -> None:
    (written / "needs.py").write_text("import no_such_library")
    top = host(("zones", "needs:commands"))

    listed = CliRunner().invoke(top)
    called = CliRunner().invoke(top, ["zones", "list", "--all"])

    assert listed.exit_code == 0
    assert "(needs zonekeeper[client])" in listed.stdout
    assert called.exit_code == 1
    assert called.stderr == (
        "Error: zones: no_such_library is not installed: pip install 'zonekeeper[shell,client]'\n"
    )


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("zonekeeper.bookie.commands.bookie", "bookie"),
        ("zonekeeper.operator.commands", "operator"),
        ("zonekeeper.pipeline.commands", "pipeline"),
        ("zonekeeper.metadata.commands", "client"),
        ("zonekeeper.replication.commands", "client"),
        ("zonekeeper.shell.commands.local", "bookie"),
        ("zonekeeper.shell.commands.zones", "client"),
    ],
)
def test_a_component_comes_with_its_own_extra_or_the_client_s(module: str, extra: str) -> None:
    point = EntryPoint("x", f"{module}:commands", hosting.GROUP)

    assert hosting._extra(point) == extra


def test_a_mistake_of_ours_is_not_hidden_as_a_missing_extra(written: Path) -> None:
    (written / "mistaken.py").write_text("import zonekeeper.placement.no_such_module")
    top = host(("zones", "mistaken:commands"))

    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        CliRunner().invoke(top, ["zones"], catch_exceptions=False)


def test_what_is_no_command_is_refused(written: Path) -> None:
    (written / "numbers_only.py").write_text("commands = 3")
    top = host(("three", "numbers_only:commands"))

    with pytest.raises(TypeError, match="three = numbers_only:commands: must be a click command"):
        CliRunner().invoke(top, ["three"], catch_exceptions=False)


def test_its_own_commands_go_before_published_ones() -> None:
    own = click.Command("greet", callback=lambda: click.echo("own"))
    point = EntryPoint("greet", "no_such_module:commands", hosting.GROUP)
    top = hosting.CommandHost(own=[own], published=[point])

    assert CliRunner().invoke(top, ["greet"]).stdout == "own\n"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("plcement explain", "No such command 'plcement'. Did you mean 'placement'?"),
        ("zone", "No such command 'zone'. Did you mean 'zones'?"),
        ("zones stat", "No such command 'stat'. Did you mean 'status'?"),
        ("bookie cookie shw", "No such command 'shw'. Did you mean 'show'?"),
        ("zones status --outpt json", "No such option '--outpt'. Did you mean '--output'?"),
        ("--versoin", "No such option '--versoin'. Did you mean '--version'?"),
        ("qqqq", "No such command 'qqqq'."),
    ],
)
def test_s174_a_wrong_word_is_refused_with_the_word_that_is_like_it(typed: str, said: str) -> None:
    found = CliRunner().invoke(main, typed.split())

    assert found.exit_code == 2
    assert found.stderr.splitlines()[-1] == f"Error: {said}"


def test_a_wrong_word_loads_no_command(written: Path) -> None:
    (written / "breaks_too.py").write_text("raise AssertionError('loaded')")

    found = CliRunner().invoke(host(("other", "breaks_too:commands")), ["othr"])

    assert "Did you mean 'other'?" in found.stderr


def test_the_version_is_that_of_what_is_installed_and_where_it_is() -> None:
    found = CliRunner().invoke(main, ["--version"])

    assert found.exit_code == 0
    name, version, python, where = found.stdout.split(maxsplit=3)
    assert (name, version) == ("zonekeeper", f"{metadata.version('zonekeeper')},")
    assert (python, where.split(", ")[0]) == ("Python", sys.version.split()[0])
    assert where.rstrip().split(", ")[1] == str(Path(hosting.__file__).parents[2])


def test_without_an_installation_the_version_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosting, "_DISTRIBUTION", "no-such-distribution")

    assert "an unknown version (it runs without being installed)" in hosting.installed()


def test_without_the_shell_extra_it_says_which_one_is_needed() -> None:
    hide = (
        "import importlib.abc, sys\n"
        "class Hide(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'click':\n"
        "            raise ModuleNotFoundError('hidden', name='click')\n"
        "sys.meta_path.insert(0, Hide())\n"
        "import zonekeeper.shell.main\n"
    )
    done = subprocess.run([sys.executable, "-c", hide], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr == (
        "zonekeeper: the command line needs click: pip install 'zonekeeper[shell]'\n"
    )


ENDS = """
import click
@click.command()
@click.option("--by")
def commands(by):
    if by == "asking":
        click.confirm("Go on?", abort=True)
    raise KeyboardInterrupt if by == "interruption" else OSError(28, "No space left on device")
"""


@pytest.mark.parametrize(
    ("by", "code", "said"),
    [
        ("asking", 2, "Error: no terminal, so no question can be asked: repeat with --yes\n"),
        ("interruption", 130, "interrupted\n"),
        ("disk", 1, "Error: [Errno 28] No space left on device\n"),
    ],
)
def test_whatever_ends_a_command_is_a_line_and_a_code(
    written: Path, by: str, code: int, said: str
) -> None:
    (written / "ends.py").write_text(ENDS)

    found = CliRunner().invoke(host(("end", "ends:commands")), ["end", "--by", by])

    assert (found.exit_code, found.stderr) == (code, said)
