"""The lines between the race and its load drivers. Pure, but for ``say``.

A command is ``verb name=value ...`` with values that have no blank. An answer is ``@@`` and one
object of JSON; every other line of a driver's output is a word of some library.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MARK: Final = "@@"


class DriverFailedError(Exception):
    """A driver could not do what it was told; the round does not count."""


@dataclass(frozen=True, slots=True)
class Given:
    """The values of a command."""

    values: Mapping[str, str]

    def number(self, name: str, otherwise: int | None = None) -> int:
        """Give a whole number."""
        text = self.values.get(name)
        if text is not None:
            return int(text)
        if otherwise is None:
            raise ValueError(f"the command lacks {name}=")
        return otherwise

    def text(self, name: str, otherwise: str) -> str:
        """Give a word."""
        return self.values.get(name, otherwise)


def command(verb: str, **values: int | str) -> str:
    """Spell a command."""
    words = [verb, *(f"{name}={value}" for name, value in values.items())]
    if any(not word or len(word.split()) != 1 for word in words):
        raise ValueError(f"a word of a command is empty or has a blank: {words}")
    return " ".join(words)


def parse(line: str) -> tuple[str, Given]:
    """Read a command; the verb of an empty line is empty."""
    verb, *pairs = line.split() or [""]
    values = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"{pair!r} of the command {verb!r} is no name=value")
        values[name] = value
    return verb, Given(values)


def answer(line: str) -> Mapping[str, object] | None:
    """Read an answer; None: the line is no answer. Raises ``DriverFailedError`` for a failure."""
    if not line.startswith(MARK):
        return None
    found = json.loads(line.removeprefix(MARK))
    if not isinstance(found, dict):
        raise DriverFailedError(f"a driver answered with no object: {line!r}")
    if "error" in found:
        raise DriverFailedError(str(found["error"]))
    return found


def say(answered: Mapping[str, object]) -> None:
    """Print an answer."""
    print(MARK + json.dumps(answered), flush=True)
