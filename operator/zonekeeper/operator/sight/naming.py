"""Names in messages: the first few of many, and how many more there are. Pure."""

from collections.abc import Collection
from typing import Final

#: So many of a long list are named.
_NAMED_MAX: Final = 5


def some(names: Collection[str]) -> str:
    """Name the first few, and count the others."""
    more = len(names) - _NAMED_MAX
    return ", ".join(sorted(names)[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
