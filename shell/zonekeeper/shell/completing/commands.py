"""`zonekeeper completion`: the script for the user's shell; and the words of all commands."""

import os
import sys
from importlib import metadata
from pathlib import Path
from typing import Final

import click

from zonekeeper.shell.completing import answering, replying, word_tree
from zonekeeper.shell.completing.word_tree import Kind, Words

#: The kinds that a parameter's name, or the name that its help shows, stands for.
_OF_CLUSTER: Final = (word_tree.ZONE, word_tree.BOOKIE, word_tree.RUNBOOK)
#: Only the name that the help shows counts: other commands have a --namespace of another kind.
_OF_LOGS: Final = {
    "log": word_tree.LOG,
    "namespace": word_tree.LOG_NAMESPACE,
    "cursor": word_tree.LOG_CURSOR,
    "candidate": word_tree.LOG_CANDIDATE,
}
_SHELLS: Final = ("bash", "zsh", "fish")


@click.command(epilog="Example: zonekeeper completion bash")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete commands, options, zones, bookies and logs.

    In ~/.bashrc: eval "$(zonekeeper completion bash)". Names of a cluster are those that the last
    command on it saw.
    """
    top = ctx.find_root().command
    if answering.remembered(os.environ) is None:
        learn(top)
    click.echo(replying.of_shell(shell, top).source())


def learn(top: click.Command) -> Words:
    """Read the words of all commands, which loads them, and remember them."""
    words = words_of(top, click.Context(top, **top.context_settings))
    origins = [
        getattr(module, "__file__", None)
        for name, module in sys.modules.items()
        if name.partition(".")[0] in (replying.NAME, "click")
    ]
    files = {Path(origin) for origin in origins if origin}
    entry_points = [
        Path(str(file.locate()))
        for file in metadata.files(replying.NAME) or ()
        if file.name == "entry_points.txt"
    ]
    answering.remember(os.environ, words, {*files, *entry_points})
    return words


def words_of(command: click.Command, context: click.Context) -> Words:
    """Give the words of a command, and of all below it."""
    inner: dict[str, Words] = {}
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                inner[name] = words_of(found, click.Context(found, context, info_name=name))
    options: dict[str, Kind] = {}
    arguments: list[Kind] = []
    many = False
    for one in command.get_params(context):
        if isinstance(one, click.Option):
            kind = word_tree.NONE if one.is_flag or one.count else _kind(one)
            options |= {name: kind for name in (*one.opts, *one.secondary_opts) if not one.hidden}
        else:
            arguments.append(_kind(one))
            many = one.nargs == -1
    return Words(commands=inner, options=options, arguments=tuple(arguments), many=many)


def _kind(one: click.Parameter) -> Kind:
    """Say what a parameter takes, by its type, or by the name that its help shows."""
    if isinstance(one.type, click.Choice):
        return tuple(str(getattr(word, "value", word)) for word in one.type.choices)
    if isinstance(one.type, click.Path | click.File):
        return word_tree.FILE
    shown = (one.metavar or "").strip("[].").lower()
    if shown in _OF_LOGS:
        return _OF_LOGS[shown]
    named = (shown, one.name or "", *(option.lstrip("-") for option in one.opts))
    return next((kind for kind in _OF_CLUSTER if kind in named), word_tree.TEXT)
