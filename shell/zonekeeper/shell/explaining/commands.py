"""``zonekeeper placement``: what the rules of placement give for a file, without a cluster."""

import json
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from zonekeeper.metadata.commands import exits, options, yaml_files
from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.placement.base.fields import InvalidFieldsError
from zonekeeper.shell.explaining import cluster_file, explanation, explanation_text

_LONG_S: Final = 2.0


@click.group()
def placement() -> None:
    """Where data goes, and what that survives."""


@contextmanager
def _patience() -> Iterator[None]:
    """Tell a terminal's user why the block takes long, once it does."""
    said = threading.Timer(
        _LONG_S, click.echo, ["trying every loss; very wide quorums take a while"], {"err": True}
    )
    said.daemon = True
    if sys.stderr.isatty():
        said.start()
    try:
        yield
    finally:
        said.cancel()


@placement.command(epilog="Example: zonekeeper placement explain cluster.yaml")
@click.argument("file", type=click.Path(path_type=Path))
@options.output("The form of the report.")
@click.option("--show-policy", is_flag=True, help="Show the policy in effect, defaults included.")
def explain(file: Path, output: str, show_policy: bool) -> None:
    """Say what a cluster survives, what crosses its zones, and whether it is legal.

    FILE is YAML: the policy as in a BookieCluster, and how many bookies stand in each zone; - reads
    standard input. docs/placement.md describes it. Nothing is contacted.

    The exit code is 0 if ledgers can be created, 1 if not (the report says why), and 2 if FILE
    cannot be read or a value in it is wrong.
    """
    with exits.reported():
        try:
            cluster = cluster_file.read(yaml_files.load(file))
        except InvalidFieldsError as error:
            lines = textwrap.indent(str(error), "  ")
            raise RefusedCommand(f"{file} is not a cluster that could be:\n{lines}") from None
    with _patience():
        found = explanation.explain(cluster)
    if output == "json":
        data = explanation.plain(found, show_policy=show_policy)
        click.echo(json.dumps(data, indent=2, sort_keys=True))
    else:
        console = Console(highlight=False, soft_wrap=False)
        explanation_text.write(console, found, show_policy=show_policy)
    sys.exit(exits.answer(yes=found.usable))
