"""Names of files that are told apart by a number: ``sorted-00000017``. Pure."""


def name_of(prefix: str, number: int) -> str:
    """Give the name of the file with a number."""
    return f"{prefix}{number:08}"


def number_of(prefix: str, name: str) -> int | None:
    """Give the number of the file that is called so; None: none is."""
    digits = name.removeprefix(prefix)
    number = int(digits) if digits.isascii() and digits.isdecimal() else None
    return number if number is not None and name_of(prefix, number) == name else None
