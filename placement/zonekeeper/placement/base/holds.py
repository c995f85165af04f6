"""The answer to "does it go on?", for everything that says what a loss or planned work leaves.

Unknown is not no, and it is not yes either: it has a value of its own, which promises nothing.
"""

import enum


class Holds(enum.IntEnum):
    """Does it go on? Ordered, the worst first."""

    NO = 0
    #: Only on a condition, which the answer's words name. Not a promise.
    PERHAPS = 1
    YES = 2

    def __bool__(self) -> bool:
        raise TypeError("three answers are not two: compare with `is Holds.YES`")

    @property
    def word(self) -> str:
        """Give it as reports print it."""
        return self.name.lower()
