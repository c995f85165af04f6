"""The reply to the user's shell, in the form that the shell expects of click."""

import os
from typing import Final

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

from zonekeeper.shell.completing import answering
from zonekeeper.shell.completing.word_tree import Words

NAME: Final = "zonekeeper"


def reply(words: Words) -> None:
    """Print the words that fit what is typed, as the shell that asks expects them."""
    shell = os.environ[answering.VARIABLE].partition("_")[0]
    if get_completion_class(shell) is None:
        return
    asked = of_shell(shell, click.Command(NAME))
    typed, begun = asked.get_completion_args()
    fitting, is_file = answering.answer(words, typed, begun, os.environ)
    items = [CompletionItem(word) for word in fitting]
    if is_file:
        items.append(CompletionItem(begun, type="file"))
    for item in items:
        click.echo(asked.format_completion(item))


def of_shell(shell: str, top: click.Command) -> ShellComplete:
    """Give what click knows of a shell."""
    kind = get_completion_class(shell)
    assert kind is not None, "it is one that click knows"
    return kind(top, {}, NAME, answering.VARIABLE)
