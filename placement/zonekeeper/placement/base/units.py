"""Durations and sizes as people write them: a whole number and a unit, ``60s``, ``50MiB``.

A text has no fraction, no space and always a unit, so it has one meaning. A value is printed in the
largest unit that divides it, so printing and reading give the same value back.
"""

import re
from typing import Final

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
TIB: Final = 1 << 40

_DURATIONS: Final = {"d": DAY_MS, "h": HOUR_MS, "m": MINUTE_MS, "s": SECOND_MS, "ms": 1}
_SIZES: Final = {"TiB": TIB, "GiB": GIB, "MiB": MIB, "KiB": KIB}
#: Enough digits for every sensible value, and few enough that a number is read fast.
_DIGITS_MAX: Final = 15


def duration_ms(text: str) -> int | None:
    """Read ``250ms``, ``60s``, ``5m``, ``6h`` or ``7d``; None for anything else."""
    return _read(text, _DURATIONS)


def duration_text(duration_ms: int) -> str:
    """Give the text of a duration; zero is ``0s``."""
    return _text(duration_ms, _DURATIONS) if duration_ms else "0s"


def size_bytes(text: str) -> int | None:
    """Read ``64KiB``, ``50MiB``, ``3GiB`` or ``2TiB``; None for anything else."""
    return _read(text, _SIZES)


def size_text(size_bytes: int) -> str:
    """Give the text of a size, which must be a whole number of KiB; zero is ``0``."""
    return _text(size_bytes, _SIZES) if size_bytes else "0"


def _read(text: str, units: dict[str, int]) -> int | None:
    match = re.fullmatch(f"([0-9]{{1,{_DIGITS_MAX}}})({'|'.join(units)})", text)
    return None if match is None else int(match[1]) * units[match[2]]


def _text(value: int, units: dict[str, int]) -> str:
    for unit, worth in units.items():
        if value % worth == 0:
            return f"{value // worth}{unit}"
    raise ValueError(f"{value} is not a whole number of {unit}; round it before it is stored")
