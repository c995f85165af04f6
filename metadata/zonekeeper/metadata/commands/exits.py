"""Exit codes: one meaning for every command of every component.

====  ================================================================================
   0  the work is done, and the answer is yes
   1  the work could not be done (the store or a bookie is out of reach, failed, or
      said no); or it was done, and the answer is no: there is damage, or a difference
   2  the request is wrong, and nothing was changed
   3  the metadata store is away; the answer is what processes say over HTTP
 130  the command was interrupted
====  ================================================================================

A command that can show nothing without the store ends with 1.

So 1 means "not known to be so": a cluster that is out of reach is not known to be well. Standard
error tells the two cases apart: a command that could not do its work ends with a line that begins
with ``Error:``.

A ``Refusal`` ends a command with 2, any other trouble with 1. A bug ends it with a traceback and 1,
as in every Python program.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

from zonekeeper.placement.base.troubles import Refusal, Trouble

DONE: Final = 0
#: The work could not be done, or the answer is no.
NOT: Final = 1
REFUSED: Final = 2
#: The store is away, and the answer comes from the processes: it may be old, and lacks much.
SECOND_HAND: Final = 3
INTERRUPTED: Final = 130


class RefusedCommand(click.ClickException):
    """The request is wrong; nothing was changed."""

    exit_code = REFUSED


def of(error: Trouble | OSError) -> click.ClickException:
    """Give the error that ends a command for a trouble: its line and its exit code."""
    kind = RefusedCommand if isinstance(error, Refusal) else click.ClickException
    return kind(str(error))


def answer(*, yes: bool) -> int:
    """Give the exit code of a command that says whether something is so."""
    return DONE if yes else NOT


@contextmanager
def reported() -> Iterator[None]:
    """Let a trouble end the command with one line and its exit code."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of our output has closed the pipe: click ends the command quietly
    except (Trouble, OSError) as error:
        raise of(error) from None
