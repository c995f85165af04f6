"""The options that commands share, each declared once, and options made from a settings table.

A command that ends by itself lets click read a setting, from the flag or the environment
(``option``). A process that serves reads its own table (``each_of``, ``given``), so that each
refusal begins with the source of the text.
"""

import math
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol, TypeVar

import click

from zonekeeper.metadata.commands import yaml_files
from zonekeeper.metadata.commands.yaml_files import UnreadableFileError
from zonekeeper.metadata.stores import settings
from zonekeeper.placement.base.settings import BadSettingError, Setting

#: Where a command's context keeps the option ``--store-timeout``, in milliseconds.
STORE_TIMEOUT_MS: Final = "zonekeeper.store-timeout-ms"
#: Nobody waits longer than a day for a command.
_STORE_TIMEOUT_S_MAX: Final = 86_400

T_co = TypeVar("T_co", covariant=True)
Command = Callable[..., None]
Decorator = Callable[[Command], Command]


def option(
    setting: Setting, parameter: str | None = None, *, kind: click.ParamType[object] | None = None
) -> Decorator:
    """Make an option of a setting: a command gets it by flag or environment."""
    names = [f"--{setting.name}", *([] if parameter is None else [parameter])]
    return click.option(
        *names,
        type=kind,
        envvar=setting.environment,
        show_envvar=True,
        required=setting.required,
        metavar=setting.shown_as,
        help=setting.help,
    )


def output(form: str = "The form of the answer.") -> Decorator:
    """Make the option for the form of a command's answer."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help=form,
    )


def _metadata(command: Command) -> Command:
    """Give a command the address of the store, and the limit of the wait for it."""
    limit = click.option(
        f"--{settings.STORE_TIMEOUT.name}",
        type=click.FloatRange(min=0.1, max=_STORE_TIMEOUT_S_MAX),
        envvar=settings.STORE_TIMEOUT.environment,
        show_envvar=True,
        default=settings.STORE_TIMEOUT_S,
        show_default=True,
        expose_value=False,
        callback=_keep_store_timeout,
        metavar=settings.STORE_TIMEOUT.shown_as,
        help=settings.STORE_TIMEOUT.help,
    )
    return option(settings.METADATA, "address")(limit(command))


def _keep_store_timeout(context: click.Context, _: click.Parameter, value: float) -> None:
    """Keep the limit for ``opening``; NaN passes the check of the bounds."""
    if math.isnan(value):
        raise click.BadParameter(f"{value} is no number of seconds")
    context.meta[STORE_TIMEOUT_MS] = round(value * 1000)


METADATA: Final[Decorator] = _metadata
CLUSTER_ID: Final = option(settings.CLUSTER_ID)
OUTPUT: Final = output()
YES: Final = click.option("--yes", is_flag=True, help="Do not ask.")
QUIET: Final = click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Say what would be done, and stop.")


def each_of(table: Iterable[Setting]) -> Decorator:
    """Give a command a flag for each setting of a table."""

    def with_flags(command: Command) -> Command:
        for setting in reversed(tuple(table)):
            notes = [f"env {setting.environment}"]
            if setting.default is not None:
                notes.append(f"default {setting.default}")
            elif setting.what_else is not None:
                notes.append("required" if setting.required else f"otherwise {setting.otherwise}")
            command = click.option(
                f"--{setting.name}",
                metavar=setting.shown_as,
                multiple=setting.many,
                help=f"{setting.help}  [{'; '.join(notes)}]",
            )(command)
        return command

    return with_flags


CONFIG: Final = click.option(
    "--config",
    envvar="ZONEKEEPER_CONFIG",
    metavar="FILE",
    help="YAML with any of these settings by their names (zone: a). A flag goes first, then the "
    "environment, then the file.  [env ZONEKEEPER_CONFIG]",
)


class Parse(Protocol[T_co]):
    """A function that makes values of texts; raises ``BadSettingError``."""

    def __call__(
        self,
        flags: Mapping[str, str | None],
        environment: Mapping[str, str],
        file: Mapping[str, object] | None = None,
        file_name: str = "",
    ) -> T_co:
        """Check all settings."""


def given(
    parse: Parse[T_co],
    flags: Mapping[str, str | tuple[str, ...] | None],
    config: str | None = None,
) -> T_co:
    """Make values of the flags of an ``each_of`` command, of the environment and of the file."""
    texts = {
        name.replace("_", "-"): (" ".join(text) or None) if isinstance(text, tuple) else text
        for name, text in flags.items()
    }
    try:
        file = None if config is None else _read_config(Path(config))
        return parse(texts, os.environ, file, config or "")
    except BadSettingError as error:
        raise click.UsageError(str(error)) from None


def _read_config(path: Path) -> dict[str, object]:
    try:
        found = yaml_files.load(path)
    except UnreadableFileError as error:
        raise BadSettingError(f"--config: {error}") from error
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise BadSettingError(f"--config: {path}: must be lines of NAME: VALUE")
    return found
