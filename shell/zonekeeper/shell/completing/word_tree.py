"""The words of all commands as plain data, and which of them fit what is typed. Pure.

    {"commands": {"zones": {"commands": {"status": {"options": {"--output": ["text", "json"]},
                                                    "arguments": ["zone"]}}}}}

An option's value, and an argument, is one of these: a list of words; ``zone`` or ``bookie``, a name
of the cluster; ``log``, ``log namespace``, ``log cursor`` or ``log candidate``, a name of its
logs; ``runbook``; ``file``; ``text``, for which there is no suggestion; ``none``, for an option
that takes no value. An argument of several words is the last one and is marked by ``many``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

#: Words to choose from, or the name of a kind.
Kind: TypeAlias = str | tuple[str, ...]

ZONE: Final = "zone"
BOOKIE: Final = "bookie"
LOG: Final = "log"
LOG_NAMESPACE: Final = "log namespace"
LOG_CURSOR: Final = "log cursor"
LOG_CANDIDATE: Final = "log candidate"
RUNBOOK: Final = "runbook"
FILE: Final = "file"
TEXT: Final = "text"
NONE: Final = "none"
KINDS: Final = (
    *(ZONE, BOOKIE, LOG, LOG_NAMESPACE, LOG_CURSOR, LOG_CANDIDATE),
    *(RUNBOOK, FILE, TEXT, NONE),
)


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
    #: The arguments of the command that are given.
    arguments: tuple[str, ...] = ()

    def argument(self, kind: Kind) -> str | None:
        """Give the given argument of a kind; None: it is not given yet."""
        pairs = zip(self.command.arguments, self.arguments, strict=False)
        return next((word for one, word in pairs if one == kind), None)


def find(tree: Words, typed: Sequence[str]) -> CursorPlace:
    """Find the place behind what is typed; a word that makes no sense is passed over.

    ``--output=json`` may be one word, or three: bash takes it apart at the ``=``.
    """
    command, path, given, arguments = tree, list[str](), dict[str, str](), list[str]()
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
                    break
                value = following
            given[option] = value
        elif word in command.commands:
            command, arguments = command.commands[word], []
            path.append(word)
        elif not word.startswith("-"):
            arguments.append(word)
    else:
        kind = _argument(command, len(arguments))
    return CursorPlace(
        command=command, kind=kind, path=tuple(path), given=given, arguments=tuple(arguments)
    )


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


def by_parts(names: Iterable[str], begun: str, most: int) -> list[str]:
    """Give the names that begin as the word at the cursor does; of more than ``most`` their parts.

    The parts end with ``/``, as folders do. A part that all names have is passed over: alone it
    would be taken for the whole word. Names of one namespace are given all.
    """
    fitting = [name for name in names if name.startswith(begun)]
    found = fitting
    while len(fitting) > most and len(found := sorted({_part(one, begun) for one in fitting})) == 1:
        begun = found[0]
    return found


def _part(name: str, begun: str) -> str:
    end = name.find("/", len(begun))
    return name if end < 0 else name[: end + 1]


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
