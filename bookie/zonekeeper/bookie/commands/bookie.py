"""``zonekeeper bookie``: the commands of a bookie, for the shell to host.

Exit code 2: a setting is wrong. 1: the bookie could not start, or could not go on. The commands for
a stopped bookie are in ``offline``.
"""

import asyncio
import logging
import os
import random
from collections.abc import Callable
from pathlib import Path

import click
import yaml

from zonekeeper.bookie.commands.offline import COMMANDS
from zonekeeper.bookie.life import process, settings
from zonekeeper.bookie.life.settings import BadSettingError


@click.group(commands=COMMANDS)
def bookie() -> None:
    """Run a bookie, the storage server, and work on a stopped one."""


def _each_setting(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command a flag for each setting."""
    for field in reversed(settings.FIELDS):
        notes = f"env {field.environment}"
        if field.default is not None:
            notes += f"; default {field.default}"
        elif field.required:
            notes += "; required"
        command = click.option(
            f"--{field.name}", metavar=field.shown_as, help=f"{field.help}  [{notes}]"
        )(command)
    return command


@bookie.command(
    epilog="Example: zonekeeper bookie run --id bk-a-0 --zone a --upgrade-domains 3 --data /data "
    "--metadata zk://zk/ledgers"
)
@click.option(
    "--config",
    envvar="ZONEKEEPER_CONFIG",
    metavar="FILE",
    help="YAML with any of these settings by their names (zone: a). A flag wins over the "
    "environment, and the environment over the file.  [env ZONEKEEPER_CONFIG]",
)
@_each_setting
def run(config: str | None, **flags: str | None) -> None:
    """Run a bookie until SIGTERM.

    The bookie prints one line when it is ready. It exits with 0 when it was stopped in order.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        checked = settings.parse(
            {name.replace("_", "-"): text for name, text in flags.items()},
            os.environ,
            {} if config is None else _read_config(Path(config)),
            config or "",
        )
    except BadSettingError as error:
        raise click.UsageError(str(error)) from None
    try:
        asyncio.run(process.run(checked, random.SystemRandom(), _announce))
    except process.StoppedError as error:
        raise click.ClickException(str(error)) from None


def _read_config(path: Path) -> dict[str, object]:
    """Read a file of settings; raises ``BadSettingError``."""
    try:
        found: object = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise BadSettingError(f"--config: {path}: {' '.join(str(error).split())}") from error
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise BadSettingError(f"--config: {path}: must be lines of NAME: VALUE")
    return found


def _announce(line: str) -> None:
    click.echo(line)
