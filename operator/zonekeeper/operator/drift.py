"""Does an object in the cluster still say what we want it to say? Pure.

The API server adds defaults and other people add what is theirs, so an object holds ours when every
field that we say is there and the same. A field that we do not say any more shows in the mark of
what was applied last. A wrong "differs" costs one apply that changes nothing, so quantities are
compared by value and nothing else is.
"""

import re
from decimal import Decimal
from typing import Final

from zonekeeper.operator.api import Json

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50}
_QUANTITY: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)([numkMGTP]?|[KMGTP]i)")


def holds(wanted: Json, found: Json) -> bool:
    """Is everything that is wanted in what was found?"""
    return _holds(wanted, found)


def _holds(wanted: object, found: object) -> bool:
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            name in found and _holds(value, found[name]) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(wanted) == len(found)
            and all(_holds(one, other) for one, other in zip(wanted, found, strict=True))
        )
    return wanted == found or _same_quantity(wanted, found)


def _same_quantity(wanted: object, found: object) -> bool:
    if isinstance(wanted, bool) or isinstance(found, bool):
        return False
    one, other = _quantity(wanted), _quantity(found)
    return one is not None and one == other


def _quantity(value: object) -> Decimal | None:
    match = _QUANTITY.fullmatch(str(value)) if isinstance(value, str | int) else None
    if match is None:
        return None
    if match[2] in _BINARY:
        return Decimal(match[1]) * (1 << _BINARY[match[2]])
    return Decimal(match[1]).scaleb(_DECIMAL[match[2]])
