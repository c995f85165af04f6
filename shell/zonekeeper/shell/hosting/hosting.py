"""The top-level command: it hosts the commands that `pyproject.toml` names as entry points.

A component publishes a click command in the entry point group ``zonekeeper.commands``. The name of
the entry point is the name of the command. A published command is loaded when it is called, not
before: the list of all commands takes each summary from the docstring in the command's source. If a
library that the command imports is not installed, the command stays in the list. Calling it says
which extra to install.
"""

import ast
import importlib.util
import inspect
import io
import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Final, NoReturn

import click
from click.exceptions import NoSuchCommand

from zonekeeper.metadata.commands import exits

GROUP = "zonekeeper.commands"
_DISTRIBUTION = "zonekeeper"
#: This extra installs the libraries of the components that have no extra of their own.
_SHARED_EXTRA = "client"
#: The only command of the shell that runs bookies; its other commands are clients of a cluster.
_RUNS_BOOKIES = "zonekeeper.shell.commands.local"


def installed() -> str:
    """Say which version this is, of which Python, and where it is."""
    try:
        version = metadata.version(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        version = "of an unknown version (it runs without being installed)"
    where = Path(__file__).resolve().parents[2]
    return f"{_DISTRIBUTION} {version}, Python {platform.python_version()}, {where}"


def _say_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(installed())
        ctx.exit(exits.DONE)


_VERSION: Final = click.Option(
    ["--version"],
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_say_version,
    help="Show the version, Python's, and where it is installed.",
)


class CommandHost(click.Group):
    """Run and watch zone-aware bookie clusters."""

    def __init__(
        self,
        own: Iterable[click.Command] = (),
        published: Iterable[metadata.EntryPoint] | None = None,
    ) -> None:
        """Host ``own`` and ``published`` commands; by default those of installed components."""
        super().__init__(
            name="zonekeeper",
            help=self.__doc__,
            commands={command.name or "": command for command in own},
            context_settings={"help_option_names": ["-h", "--help"]},
            callback=_help_if_bare,
            invoke_without_command=True,
            params=[_VERSION],
        )
        for command in self.commands.values():
            _summarise(command)
        found = metadata.entry_points(group=GROUP) if published is None else published
        self._published: Mapping[str, metadata.EntryPoint] = {
            point.name: point
            for point in sorted(found, key=lambda point: (point.name, point.value))
        }

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name all commands, sorted, without loading any."""
        return sorted({*super().list_commands(ctx), *self._published})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load and give a command; of two with one name, the own command is given."""
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name not in self._published:
            return own
        return _loaded(self._published[cmd_name])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the named command; for a wrong name, suggest commands that are much alike."""
        try:
            return super().resolve_command(ctx, args)
        except NoSuchCommand as wrong:  # it knows the own commands only
            every = self.list_commands(ctx)
            raise NoSuchCommand(wrong.command_name, possibilities=every, ctx=ctx) from None

    def invoke(self, ctx: click.Context) -> object:
        """Run the named command; an interruption or an I/O error is reported in one line."""
        if sys.stderr is None:  # it was closed: what is written to it is dropped
            sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 to the end of the process
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # some terminals lack some characters
                stream.reconfigure(errors="backslashreplace")
        try:
            return super().invoke(ctx)
        except click.Abort as abort:
            if isinstance(abort.__context__, KeyboardInterrupt):  # in answer to a question
                _end_interrupted(ctx)
            if sys.stdin.isatty():
                raise  # a person was asked, and said no
            raise exits.RefusedCommand(
                "no terminal, so no question can be asked: repeat with --yes"
            ) from None
        except KeyboardInterrupt:
            _end_interrupted(ctx)
        except BrokenPipeError:  # the reader of the answer has closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(exits.DONE)
        except OSError as error:  # mostly: the answer cannot be written
            raise click.ClickException(str(error)) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List all commands with what each does, without loading the published ones."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self._summary(ctx, name)) for name in self.list_commands(ctx)]
            )

    def _summary(self, ctx: click.Context, name: str) -> str:
        command = super().get_command(ctx, name)
        if command is None:
            written = _docstring(self._published[name])
            if written is not None:
                return _first_sentence(written)
            command = self.get_command(ctx, name)
            assert command is not None, "it is one of those that are listed"
        return command.short_help or _first_sentence(command.help or "")


def _end_interrupted(ctx: click.Context) -> NoReturn:
    click.echo("interrupted", err=True)
    ctx.exit(exits.INTERRUPTED)


@click.pass_context
def _help_if_bare(ctx: click.Context) -> None:
    """Show the help where no command is named."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _docstring(point: metadata.EntryPoint) -> str | None:
    """Read a command's docstring from its source; None: the source has no function of its name."""
    spec = importlib.util.find_spec(point.module)
    if spec is None or spec.origin is None:
        return None
    for node in ast.parse(Path(spec.origin).read_bytes()).body:
        if isinstance(node, ast.FunctionDef) and node.name == point.attr:
            return ast.get_docstring(node)
    return None


def _loaded(point: metadata.EntryPoint) -> click.Command:
    try:
        command = point.load()
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] == _DISTRIBUTION:
            raise  # a defect of zonekeeper, not a missing extra
        return _unavailable(point, missing)
    if not isinstance(command, click.Command):
        raise TypeError(f"entry point {point.name} = {point.value}: must be a click command")
    _summarise(command)
    return command


def _summarise(command: click.Command) -> None:
    """Make the whole first sentence a command's summary in lists: click would cut it off."""
    command.short_help = command.short_help or _first_sentence(command.help or "")
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            _summarise(inner)


def _first_sentence(text: str) -> str:
    paragraph = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].removesuffix(".") + "." if paragraph else ""


def _unavailable(point: metadata.EntryPoint, missing: ModuleNotFoundError) -> click.Command:
    """Stand in for a command whose libraries are not installed."""
    needs = f"needs zonekeeper[{_extra(point)}]"

    def refuse() -> None:
        raise click.ClickException(
            f"{point.name}: {missing.name} is not installed: "
            f"pip install 'zonekeeper[shell,{_extra(point)}]'"
        )

    return click.Command(
        point.name,
        callback=refuse,
        short_help=f"({needs})",
        help=f"Not available: it {needs}.",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )


def _extra(point: metadata.EntryPoint) -> str:
    """Give the extra that installs the libraries of a published command."""
    if point.module == _RUNS_BOOKIES:
        return "bookie"
    component = re.sub(r"^zonekeeper\.([a-z]+)\..*$", r"\1", point.module)
    extras = metadata.metadata(_DISTRIBUTION).get_all("Provides-Extra") or []
    has_its_own = component in extras and component != "shell"
    return component if has_its_own else _SHARED_EXTRA
