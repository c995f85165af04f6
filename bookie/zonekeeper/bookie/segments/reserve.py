"""The reserve: the room on a device that is left free for what a bookie must be able to write.

It has two parts. One is chosen (``--reserve-bytes``), and is left in steps. Plain appends and
writing in advance leave all of it. Recoveries and rounds of the rewrite leave half of it, and
compaction a quarter. That quarter is for the index, and for the tables of a checkpoint.

The other part is room for the next checkpoint, which is written beside the present one. Nothing but
a checkpoint may use it, because without a checkpoint no room becomes free. It grows with the
ledgers: the checkpoint of a million takes 200 MiB.
"""

from collections.abc import Callable


class Reserve:
    """The room that is left free; any thread may ask."""

    def __init__(self, chosen_bytes: int, checkpoint_bytes: Callable[[], int]) -> None:
        """``checkpoint_bytes`` gives the most bytes that a checkpoint can have now."""
        self._chosen_bytes = chosen_bytes
        self._checkpoint_bytes = checkpoint_bytes

    @property
    def appends_leave_bytes(self) -> int:
        """The room that plain appends, and writing in advance, leave free."""
        return self._chosen_bytes + self._checkpoint_bytes()

    @property
    def rounds_leave_bytes(self) -> int:
        """The room that rounds and recoveries leave free."""
        return self._chosen_bytes // 2 + self._checkpoint_bytes()

    @property
    def compaction_leaves_bytes(self) -> int:
        """The room that compaction leaves free."""
        return self._chosen_bytes // 4 + self._checkpoint_bytes()
