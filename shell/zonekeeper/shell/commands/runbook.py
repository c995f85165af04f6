"""``zonekeeper runbook``: what to do about a predicate or an alert, without a checkout at hand."""

import click
from rich import box
from rich.table import Table
from rich.text import Text

from zonekeeper.metadata.commands import options
from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.shell.reaching import reaching
from zonekeeper.shell.runbooks import shelf


@click.command(epilog="Example: zonekeeper runbook zoneHeld")
@click.argument("name", metavar="[RUNBOOK]", required=False)
@options.OUTPUT
def runbook(name: str | None, output: str) -> None:
    """Print the runbook of a predicate or an alert; without a name, list all."""
    pages = shelf.pages()
    if name is None:
        rows = {known: shelf.summary(text) for known, text in pages.items()}
        if output == "json":
            reaching.print_json(rows)
        else:
            _show(rows)
        return
    text = pages.get(name)
    if text is None:
        meant = shelf.alike(name)
        hint = f"did you mean {', '.join(meant)}? " if meant else ""
        raise RefusedCommand(f"there is no runbook {name}; {hint}`zonekeeper runbook` lists all")
    if output == "json":
        reaching.print_json({"name": name, "text": text})
    else:
        click.echo(text, nl=False)


def _show(rows: dict[str, str]) -> None:
    table = Table(box=box.SIMPLE)
    table.add_column("runbook", no_wrap=True)
    table.add_column("what it means")
    for name, meaning in rows.items():
        table.add_row(Text(name), Text(meaning))
    reaching.console().print(table)
