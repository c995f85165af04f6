"""Amounts of processor, memory and storage as Kubernetes writes them, by value. Pure.

The API server gives an amount back in its own spelling (``.5`` as ``500m``, ``1e3`` as ``1k``), so
two amounts are compared by value and not by text.
"""

import re
from decimal import Decimal
from typing import Final

_DECIMAL: Final = dict(zip(["n", "u", "m", "", *"kMGTPE"], range(-9, 19, 3), strict=True))
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

#: The amounts that Kubernetes reads, without a sign and of bounded length.
PATTERN: Final = (
    r"([0-9]{1,18}\.?[0-9]{0,18}|\.[0-9]{1,18})([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,2})?"
)
_QUANTITY: Final = re.compile(PATTERN)
#: Kubernetes stores another amount than the one given, unless it is 0 or in [_LEAST, _MOST].
_LEAST: Final = Decimal(1).scaleb(_DECIMAL["n"])
_MOST: Final = Decimal(2**63 - 1)


def value(given: object) -> Decimal | None:
    """Give the value of an amount; None: it cannot be read, or is out of Kubernetes' range."""
    if not isinstance(given, str | int):
        return None
    match = _QUANTITY.fullmatch(str(given))
    if match is None:
        return None
    worth = _worth(Decimal(match[1]), match[2] or "")
    return worth if worth == 0 or _LEAST <= worth <= _MOST else None


def is_larger(one: object, other: object) -> bool:
    """Is an amount larger than another one? One that cannot be read is not compared."""
    first, second = value(one), value(other)
    return first is not None and second is not None and first > second


def _worth(number: Decimal, suffix: str) -> Decimal:
    if suffix in _BINARY:
        return number * (1 << _BINARY[suffix])
    return number.scaleb(_DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:]))
