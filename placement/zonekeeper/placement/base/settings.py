"""The settings of a process: the table of those that there are, and the texts of those given. Pure.

Each setting has one name. ``--upgrade-domains`` is ``ZONEKEEPER_UPGRADE_DOMAINS`` in the
environment and ``upgrade-domains:`` in the file. A flag is preferred to the environment, the
environment to the file, and the file to the default. Every refusal begins with the source of the
text: a flag, a variable, or a name in the file.

The tables stand in the components of their processes. Flags, help and pages of the documentation
are made from the tables, or checked against them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from zonekeeper.placement.base import units
from zonekeeper.placement.base.troubles import Refusal

T = TypeVar("T")

#: The variable of every setting begins with this.
VARIABLES: Final = "ZONEKEEPER_"

_DIGITS_MAX: Final = 9
_WHOLE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting, with everything that help and pages say of it."""

    name: str
    #: The word that stands for its text in the help, such as ``FILE``.
    shown_as: str
    help: str
    #: The text if none is given. None: ``required`` or ``otherwise`` says what is so then; if
    #: neither is set, the setting stays without a value.
    default: str | None = None
    #: How the process finds a value if none is given, in words.
    otherwise: str | None = None
    required: bool = False
    #: Its environment variable; None: ``ZONEKEEPER_`` and the name in capitals.
    variable: str | None = None
    #: The flag may be given several times; the text has all parts, with blanks between them.
    many: bool = False

    @property
    def environment(self) -> str:
        """The environment variable."""
        return self.variable or variable_of(self.name)

    @property
    def what_else(self) -> str | None:
        """What applies if the setting is not given, in words; None: nothing."""
        return "required" if self.required else self.default or self.otherwise


def variable_of(name: str) -> str:
    """Give the environment variable of a setting that names none of its own."""
    return f"{VARIABLES}{name.upper().replace('-', '_')}"


class BadSettingError(Refusal, ValueError):
    """A setting breaks its rule; the message begins with the source of its text."""


class GivenSettings:
    """The texts that were given for a table's settings, and the source of each.

    A variable of the environment that belongs to no setting is ignored. A name in the file that
    belongs to no setting is refused: the person who wrote the file meant something by it.
    """

    def __init__(
        self,
        table: Iterable[Setting],
        flags: Mapping[str, str | None],
        environment: Mapping[str, str],
        file: Mapping[str, object] | None = None,
        file_name: str = "",
    ) -> None:
        self._table = {setting.name: setting for setting in table}
        assert flags.keys() <= self._table.keys(), "a flag is made from a setting"
        told = file or {}
        if unknown := sorted(told.keys() - self._table.keys()):
            raise BadSettingError(
                f"{unknown[0]!r} in {file_name}: there is no such setting; there are: "
                f"{', '.join(self._table)}"
            )
        self._texts: dict[str, tuple[str, str]] = {}
        for name, setting in self._table.items():
            flag, variable = flags.get(name), environment.get(setting.environment)
            if flag is not None:
                self._texts[name] = (f"--{name}", flag)
            elif variable:  # for every command an empty variable counts as none
                self._texts[name] = (setting.environment, variable)
            elif (value := told.get(name)) is not None:
                source = f"{name} in {file_name}"
                self._texts[name] = (source, _text(source, value))

    def has(self, name: str) -> bool:
        """Was the setting given, by flag, environment or file?"""
        return name in self._texts

    def source(self, name: str) -> str:
        """Give the source of a setting's text; the flag, if no text was given."""
        return self._texts[name][0] if name in self._texts else f"--{name}"

    def read(self, name: str, read: Callable[[str], T], otherwise: str | None = None) -> T:
        """Read a setting's text or default; ``read`` raises ``ValueError`` with what is needed."""
        setting = self._table[name]
        source, text = self._texts.get(name, (f"--{name}", otherwise or setting.default))
        if text is None:
            raise BadSettingError(
                f"--{name}: must be given (or {setting.environment}, or {name}: in the file of "
                "--config)"
            )
        try:
            return read(text)
        except ValueError as error:
            raise BadSettingError(f"{source}: {error}") from error

    def optional(self, name: str, read: Callable[[str], T]) -> T | None:
        """Read a setting that was given or has a default; otherwise give None."""
        if not self.has(name) and self._table[name].default is None:
            return None
        return self.read(name, read)

    def together(self, names: Sequence[str], why: str) -> bool:
        """Were all these settings given (true), or none (false)? Raises if some are missing."""
        missing = [name for name in names if not self.has(name)]
        if len(missing) == len(names):
            return False
        if missing:
            raise BadSettingError(f"--{missing[0]}: must be given, because {why}")
        return True


def _text(source: str, value: object) -> str:
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    raise BadSettingError(f"{source}: must be a text or a number, and is {value!r}")


def duration_ms(text: str) -> int:
    """Read a duration above zero."""
    found = units.duration_ms(text)
    if not found:
        raise ValueError(f"{text!r}: must be a duration above zero, such as 10s or 500ms")
    return found


def size_bytes(text: str) -> int:
    """Read a size above zero."""
    found = units.size_bytes(text)
    if not found:
        raise ValueError(f"{text!r}: must be a size above zero, such as 64MiB")
    return found


def share(text: str) -> float:
    """Read a share above zero, such as 25%."""
    number = text.removesuffix("%")
    if number == text or not (number.isascii() and number.isdigit() and 0 < int(number) <= _WHOLE):
        raise ValueError(f"{text!r}: must be a share from 1% to 100%")
    return int(number) / _WHOLE


def count(text: str, most: int | None = None) -> int:
    """Read a whole number above zero, and at most ``most``."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX else 0
    if not number or (most is not None and number > most):
        limit = "on" if most is None else f"to {most}"
        raise ValueError(f"{text!r}: must be a whole number from 1 {limit}")
    return number
