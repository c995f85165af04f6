"""The sentence about a name that nothing has: what there is, and what may be meant. Pure.

A name is compared without regard to case. Only names that are much alike are suggested, and a list
of names that is long is cut off, so that the sentence stays one line that a person reads.
"""

import difflib
from collections.abc import Iterable
from typing import Final

#: At most this many names are suggested, and at most this many are listed.
SUGGESTED_MAX: Final = 3
LISTED_MAX: Final = 20
#: Two words that are less alike are no misspelling of one another.
_ALIKE: Final = 0.6


def alike(name: str, known: Iterable[str], *, at_least: float = _ALIKE) -> list[str]:
    """Give the names that may be meant by a wrong one, the likeliest first."""
    by_lower = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=SUGGESTED_MAX, cutoff=at_least)
    return [by_lower[one] for one in close]


def there_is_no(kind: str, name: str, known: Iterable[str]) -> str:
    """Say that there is nothing of this kind and name, what there is, and what may be meant."""
    every = sorted(known)
    listed = ", ".join(every[:LISTED_MAX]) or "none"
    more = len(every) - LISTED_MAX
    rest = f" and {more} more" if more > 0 else ""
    return f"there is no {kind} {name}; there are {listed}{rest}{question(name, every)}"


def question(name: str, known: Iterable[str]) -> str:
    """Give what to put behind a sentence about a wrong name: a question, or nothing."""
    meant = alike(name, known)
    return f"; did you mean {' or '.join(meant)}?" if meant else ""
