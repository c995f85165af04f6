"""Options as Spark gives them: texts under names in any case, read once, all faults named at once.

A reader of options takes the texts that it knows from here. What is wrong is kept as a problem, and
the reading goes on; ``check`` raises all of them together. A problem spells the option as the place
where it was given: sources write ``tlsKey``, commands ``--tls-key``. No problem shows a text of an
option that could be a secret: options name files of secrets, and a refused name may be one of an
old option that held the secret itself.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from zonekeeper.placement.base import fields
from zonekeeper.placement.base.fields import InvalidFieldsError, Problem
from zonekeeper.placement.base.settings import Setting
from zonekeeper.wire.formats.entries import ID_END

T = TypeVar("T")

#: A setting that is yes or no is shown as this.
YES: Final = "yes"

_DIGITS_MAX: Final = len(str(ID_END))
#: Names that hold a secret. What is written under them is never an option, and never shown.
_SECRETS: Final = {
    "password": "passwordFile",
    "token": "passwordFile",
}
_NOT_HERE: Final = (
    "write the password into a file on the driver and on every executor, and give the file's name "
    "as {}: Spark shows options in plans, and texts of SQL in its event log"
)


class OptionTexts:
    """The texts of the options of one table of settings, and what is wrong with them."""

    def __init__(
        self,
        given: Mapping[str, str],
        settings: Iterable[Setting],
        *,
        spelled: Callable[[str], str] = str,
        of: str = "zonekeeper",
    ) -> None:
        """``spelled`` spells a name for people; ``of`` says to them whose options these are."""
        self.spelled = spelled
        self._rule = f"is no option of {of}"
        names = tuple(setting.name for setting in settings)
        known = {name.lower(): name for name in names}
        self.problems = [
            self._unknown(name, names) for name in sorted(given) if name.lower() not in known
        ]
        self._texts = {
            known[name.lower()]: text for name, text in given.items() if name.lower() in known
        }

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def wrong(self, name: str, shown: str, rule: str, fix: str) -> None:
        """Keep a problem."""
        self.problems.append(Problem(self.spelled(name), shown, rule, fix))

    def text(self, name: str) -> str | None:
        """Give a text that may be anything but empty; None: it was not given, or is wrong."""
        text = self._texts.get(name)
        if text is not None and not text.strip():
            self.wrong(name, "empty", "must not be empty", "give it, or leave the option out")
            return None
        return text

    def number(self, name: str, least: int, most: int) -> int | None:
        """Give a whole number within limits; None: it was not given, or is wrong."""
        text = self._texts.get(name)
        if text is None:
            return None
        number = whole(text)
        if number is not None and least <= number <= most:
            return number
        rule = f"must be a whole number from {least} to {most}"
        self.wrong(name, fields.shown(text), rule, f"write for example {least}")
        return None

    def read(self, name: str, read: Callable[[str], T]) -> T | None:
        """Give what ``read`` makes of a text; its ``ValueError`` says rule and fix.

        None: the option was not given, or is wrong.
        """
        text = self._texts.get(name)
        if text is None:
            return None
        try:
            return read(text)
        except ValueError as error:
            rule, _, fix = str(error).partition("; ")
            self.wrong(name, fields.shown(text), rule, fix)
            return None

    def yes(self, name: str) -> bool:
        """Say whether an option was given as yes; no is what it is otherwise."""
        text = self._texts.get(name, "no")
        if text not in (YES, "no"):
            self.wrong(name, fields.shown(text), "must be yes or no", "write yes, or leave it out")
        return text == YES

    def require(self, name: str, example: str) -> None:
        """Keep a problem unless an option was given."""
        if name not in self:
            self.wrong(name, "not given", "is required", f"write {example}")

    def check(self) -> None:
        """Raise ``InvalidFieldsError`` with all problems, if there are any."""
        if self.problems:
            raise InvalidFieldsError(self.problems)

    def _unknown(self, name: str, names: tuple[str, ...]) -> Problem:
        instead = _SECRETS.get(name.lower())
        if instead is not None and instead in names:
            fix = _NOT_HERE.format(self.spelled(instead))
            return Problem(name, "not shown", self._rule, fix)
        near = difflib.get_close_matches(name, names, 1)
        fix = (
            f"did you mean {self.spelled(near[0])}?"
            if near
            else f"there are {', '.join(map(self.spelled, names))}"
        )
        return Problem(self.spelled(name), "unknown", self._rule, fix)


def whole(text: str) -> int | None:
    """Give a number of decimal digits; None: the text is none, or too long for any id."""
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX:
        return int(text)
    return None
