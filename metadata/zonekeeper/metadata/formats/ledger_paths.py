"""The path of a ledger's node: Apache BookKeeper's hierarchical layout, in its hybrid form.

    id below 2**31 - 1    10 digits as 2-4-4          /00/0000/L0001
    any other             19 digits as 3-4-4-4-4      /000/0000/0000/0000/L0001

Paths are relative to the root. No node has more than 10,000 children, so a listing reads the tree
node by node. The two trees do not overlap: the first level of one has two digits, and that of the
other has three.
"""

import re
from typing import Final

from zonekeeper.placement.base.ids import LedgerId

SHORT_ID_END: Final = (1 << 31) - 1
LEDGER_ID_MAX: Final = (1 << 63) - 1

SHORT_LEVELS: Final = (2, 4, 4)
LONG_LEVELS: Final = (3, 4, 4, 4, 4)

_SHORT: Final = re.compile(r"/([0-9]{2})/([0-9]{4})/L([0-9]{4})")
_LONG: Final = re.compile(r"/([0-9]{3})/([0-9]{4})/([0-9]{4})/([0-9]{4})/L([0-9]{4})")


def path(ledger_id: LedgerId) -> str:
    """Give the path of a ledger's node below the root."""
    assert 0 <= ledger_id <= LEDGER_ID_MAX, f"{ledger_id} is no ledger id"
    levels = SHORT_LEVELS if ledger_id < SHORT_ID_END else LONG_LEVELS
    digits = f"{ledger_id:0{sum(levels)}d}"
    parts, at = [], 0
    for width in levels:
        parts.append(digits[at : at + width])
        at += width
    return "/" + "/".join([*parts[:-1], "L" + parts[-1]])


def parse(relative: str) -> LedgerId | None:
    """Give the ledger with this path; None if it is not the path of a ledger.

    An id that is spelled in the form of the other tree is not the path of a ledger either: no
    reader would look for the ledger there.
    """
    for pattern, low, high in (
        (_SHORT, 0, SHORT_ID_END - 1),
        (_LONG, SHORT_ID_END, LEDGER_ID_MAX),
    ):
        if found := pattern.fullmatch(relative):
            ledger_id = int("".join(found.groups()))
            return LedgerId(ledger_id) if low <= ledger_id <= high else None
    return None
