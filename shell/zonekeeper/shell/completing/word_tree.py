"""The words of all commands as plain data, and which of them fit what is typed. Pure.

    {"commands": {"zones": {"commands": {"status": {"options": {"--output": ["text", "json"]},
                                                    "arguments": ["zone"]}}}}}

An option's value, and an argument, is one of these: a list of words; ``zone`` or ``bookie``, a name
of the cluster; ``runbook``; ``file``; ``text``, for which there is no suggestion; ``none``, for an
option that takes no value. An argument of several words is the last one and is marked by ``many``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

#: Words to choose from, or the name of a kind.
Kind: TypeAlias = str | tuple[str, ...]

ZONE: Final = "zone"
BOOKIE: Final = "bookie"
RUNBOOK: Final = "runbook"
FILE: Final = "file"
TEXT: Final = "text"
NONE: Final = "none"
KINDS: Final = (ZONE, BOOKIE, RUNBOOK, FILE, TEXT, NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The words of one command."""

    commands: Mapping[str, "Words"] = field(default_factory=dict)
    options: Mapping[str, Kind] = field(default_factory=dict)
    arguments: tuple[Kind, ...] = ()
    #: The last argument may be given again and again.
    many: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorPlace:
    """Where the cursor is."""

    command: Words
    #: What the word at the cursor may be.
    kind: Kind
    #: The names of the commands that lead here.
    path: tuple[str, ...]
    #: The options that are given, with their values.
    given: Mapping[str, str]


def find(tree: Words, typed: Sequence[str]) -> CursorPlace:
    """Find the place behind what is typed; a word that makes no sense is passed over.

    ``--output=json`` may be one word, or three: bash takes it apart at the ``=``.
    """
    command, path, given, arguments = tree, list[str](), dict[str, str](), 0
    words = iter(typed)
    for word in words:
        option, equals, value = word.partition("=")
        if option.startswith("-") and option in command.options:
            kind = command.options[option]
            if kind != NONE and not equals:
                following = next(words, None)
                if following == "=":
                    following = next(words, None)
                if following is None:
                    return CursorPlace(command=command, kind=kind, path=tuple(path), given=given)
                value = following
            given[option] = value
        elif word in command.commands:
            command, arguments = command.commands[word], 0
            path.append(word)
        elif not word.startswith("-"):
            arguments += 1
    kind = _argument(command, arguments)
    return CursorPlace(command=command, kind=kind, path=tuple(path), given=given)


def _argument(command: Words, number: int) -> Kind:
    if command.commands:
        return tuple(sorted(command.commands))
    if command.many and command.arguments:
        number = min(number, len(command.arguments) - 1)
    return command.arguments[number] if number < len(command.arguments) else TEXT


def fitting(place: CursorPlace, begun: str, names: Sequence[str]) -> Iterator[str]:
    """Give the words that begin as the word at the cursor does.

    ``names`` are the names of the place's kind.
    """
    if begun.startswith("-"):
        words: Sequence[str] = sorted(
            name for name in place.command.options if name.startswith("--")
        )
    elif isinstance(place.kind, tuple):
        words = place.kind
    else:
        words = sorted(set(names))
    return (word for word in words if word.startswith(begun))


def plain(words: Words) -> dict[str, object]:
    """Give the tree as plain data."""
    return {
        "commands": {name: plain(one) for name, one in words.commands.items()},
        "options": dict(words.options),
        "arguments": list(words.arguments),
        "many": words.many,
    }


def parse(data: object) -> Words:
    """Read a tree; raises ``ValueError`` for anything else."""
    match data:
        case {
            "commands": dict(commands),
            "options": dict(options),
            "arguments": list(arguments),
            "many": bool(many),
        }:
            return Words(
                commands={str(name): parse(one) for name, one in commands.items()},
                options={str(name): _kind(one) for name, one in options.items()},
                arguments=tuple(map(_kind, arguments)),
                many=many,
            )
    raise ValueError("these are no words of a command")


def _kind(data: object) -> Kind:
    if isinstance(data, list) and all(isinstance(word, str) for word in data):
        return tuple(data)
    if data in KINDS:
        return str(data)
    raise ValueError(f"{data!r} is no kind of a value")
