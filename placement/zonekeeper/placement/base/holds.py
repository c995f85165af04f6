"""The answer to the question whether something goes on after a loss, or during planned work.

Unknown is neither no nor yes. It has a value of its own, ``PERHAPS``, which promises nothing.
"""

import enum


class Holds(enum.IntEnum):
    """Does it go on? The values are ordered, the worst first."""

    NO = 0
    #: Only on a condition, which the words beside the answer name. It is not a promise.
    PERHAPS = 1
    YES = 2

    def __bool__(self) -> bool:
        raise TypeError("three answers are not two: compare with `is Holds.YES`")

    @property
    def word(self) -> str:
        """Give the value as reports print it."""
        return self.name.lower()
