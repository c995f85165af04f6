"""Names of files that differ by a number: ``sorted-00000017``. Pure."""

from typing import Final

#: The names of arrival segments begin so.
ARRIVAL: Final = "arrival-"


def name_of(prefix: str, number: int) -> str:
    """Give the name of the file with a number."""
    return f"{prefix}{number:08}"


def number_of(prefix: str, name: str) -> int | None:
    """Give the number in a file's name; None: ``name_of`` gives no such name."""
    digits = name.removeprefix(prefix)
    number = int(digits) if digits.isascii() and digits.isdecimal() else None
    return number if number is not None and name_of(prefix, number) == name else None
