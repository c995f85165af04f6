"""The top of the command: its own commands, and those that installed components publish.

A component publishes a click command in the entry point group ``zonekeeper.commands``; the entry
point's name is the command's. It is loaded when somebody uses it or asks for help, not before, so a
command costs nothing to those who do not call it. If what it imports is not installed, its place in
the help is kept, and calling it says which extra to install.
"""

import re
from collections.abc import Iterable, Mapping
from importlib import metadata

import click

GROUP = "zonekeeper.commands"
_DISTRIBUTION = "zonekeeper"
#: Components that have no extra of their own come with this one.
_SHARED_EXTRA = "client"
#: The shell's own extra is there. What it publishes runs bookies, or reaches a cluster (``live``).
_EXTRA_OF_THE_SHELL = "bookie"
_LIVE = "zonekeeper.shell.live."


class Host(click.Group):
    """Run and watch zone-aware bookie clusters."""

    def __init__(
        self,
        own: Iterable[click.Command] = (),
        published: Iterable[metadata.EntryPoint] | None = None,
    ) -> None:
        """Host its own commands and the published ones; the default are those installed."""
        super().__init__(
            name="zonekeeper",
            help=self.__doc__,
            commands={command.name or "": command for command in own},
            context_settings={"help_option_names": ["-h", "--help"]},
            callback=_help_if_bare,
            invoke_without_command=True,
        )
        found = metadata.entry_points(group=GROUP) if published is None else published
        self._published: Mapping[str, metadata.EntryPoint] = {
            point.name: point
            for point in sorted(found, key=lambda point: (point.name, point.value))
        }

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name all commands, sorted, without loading any."""
        return sorted({*super().list_commands(ctx), *self._published})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Give a command, loaded; its own ones go first."""
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name not in self._published:
            return own
        return _loaded(self._published[cmd_name])


@click.pass_context
def _help_if_bare(ctx: click.Context) -> None:
    """Show the help where no command is named."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _loaded(point: metadata.EntryPoint) -> click.Command:
    try:
        command = point.load()
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] == _DISTRIBUTION:
            raise  # a mistake of ours, not an extra that is missing
        return _unavailable(point, missing)
    if not isinstance(command, click.Command):
        raise TypeError(f"entry point {point.name} = {point.value}: must be a click command")
    return command


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
    """Give the extra that brings what a component needs."""
    if point.module.startswith(_LIVE):
        return _SHARED_EXTRA
    component = re.sub(r"^zonekeeper\.([a-z]+)\..*$", r"\1", point.module)
    if component == "shell":
        return _EXTRA_OF_THE_SHELL
    extras = metadata.metadata(_DISTRIBUTION).get_all("Provides-Extra") or []
    return component if component in extras else _SHARED_EXTRA
