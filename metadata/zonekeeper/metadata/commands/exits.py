"""What the exit code of a command says: the same for every command of every component.

====  ================================================================================
   0  done, and what was looked for is so
   1  it could not be done (out of reach, failed on the way, whoever was asked said no);
      or it was done, and the answer is no: there is damage, or a difference
   2  what was asked for is wrong, and nothing was changed
 130  interrupted
====  ================================================================================

A command that answers by its exit code is right to call 1 "not known to be so": what is out of
reach is not known to be well. Which of the two it was stands on standard error: a command that
could not do its work ends with a line that begins with ``Error:``.

``Refusal`` is what ends with 2, any other trouble ends with 1. A bug ends with its traceback, and
with 1, as Python has it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

from zonekeeper.placement.base.troubles import Refusal, Trouble

DONE: Final = 0
#: Not done, or not so.
NOT: Final = 1
REFUSED: Final = 2
INTERRUPTED: Final = 130


class RefusedCommand(click.ClickException):
    """What was asked for is wrong; nothing was changed."""

    exit_code = REFUSED


def of(error: Trouble | OSError) -> click.ClickException:
    """Give what ends a command for a trouble: its line, with its exit code."""
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
        raise  # whoever read our answer has read enough: click ends in peace
    except (Trouble, OSError) as error:
        raise of(error) from None
