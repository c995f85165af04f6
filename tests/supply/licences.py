"""Licences of what is installed, as SPDX names them, and which of them may be shipped.

A distribution says its licence in up to three places. The first that has a known meaning counts:
``License-Expression``, ``License``, and a classifier if there is exactly one with a known meaning.
Nothing is guessed: a licence that is not known by this table is unknown, and may not be shipped.
"""

import re
from collections.abc import Iterable
from typing import Final

#: What the image and the wheel may have. Each lets us ship the package unchanged beside our code.
#: MPL-2.0 asks that changes of its own files are published; we change none.
ALLOWED: Final = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "ISC",
        "MIT",
        "MIT-0",
        "MPL-2.0",
        "PSF-2.0",
        "Zlib",
    }
)
#: What distributions write in their field ``License``, in lower case.
_TEXTS: Final = {
    "3-clause bsd license": "BSD-3-Clause",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "bsd 2-clause license": "BSD-2-Clause",
}
#: Classifiers that mean one licence. ``BSD License`` is none of them: there are several.
_CLASSIFIERS: Final = {
    "Apache Software License": "Apache-2.0",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
_BY_LOWER: Final = {one.lower(): one for one in ALLOWED}


def expression(said: str, text: str, classifiers: Iterable[str]) -> str | None:
    """Give the licence as an SPDX expression; None: it is unknown."""
    if said.strip():
        return said.strip()
    lower = text.strip().lower()
    if found := _BY_LOWER.get(lower) or _TEXTS.get(lower):
        return found
    last = [one.rpartition(" :: ")[2] for one in classifiers if one.startswith("License ::")]
    known = {_CLASSIFIERS[one] for one in last if one in _CLASSIFIERS}
    return known.pop() if len(known) == 1 and len(last) == 1 else None


def is_allowed(found: str | None) -> bool:
    """May it be shipped? Of an ``OR`` one part must be allowed, of an ``AND`` all.

    An expression with brackets or an exception is not allowed: a person looks at it.
    """
    if found is None:
        return False
    if not re.fullmatch(r"[A-Za-z0-9.+-]+( (AND|OR) [A-Za-z0-9.+-]+)*", found):
        return False
    # AND binds closer than OR.
    return any(all(one in ALLOWED for one in way.split(" AND ")) for way in found.split(" OR "))
