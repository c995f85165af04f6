"""Chance is a parameter: the part of ``random.Random`` that the rules need.

The rules never import ``random``. The caller passes a seeded generator, and the same seed gives the
same choice.
"""

from typing import Protocol


class Chance(Protocol):
    """The part of ``random.Random`` that the rules use."""

    def random(self) -> float:
        """Give the next number in [0, 1)."""
        ...
