"""The reserve: the room on a device that is left free for what a bookie must be able to write.

It has two parts. One is chosen (``--reserve-bytes``), and is left in steps. Plain appends and
writing in advance leave all of it. Recoveries and rounds of the rewrite leave half of it, and
compaction a quarter. That quarter is for the index, and for the tables of a checkpoint.

The other part is room for the next checkpoint, which is written beside the present one, and for the
one after it, which is written beside the next one. Nothing but a checkpoint may use it, because
without a checkpoint no room becomes free. It grows with the ledgers: the checkpoint of a million
takes 200 MiB. The next one may be much larger than the present one, and then it leaves less free:
``2 * next - present <= free`` before it is written gives ``next <= free`` after that.

So a record that makes the next checkpoint larger is taken only if the checkpoint keeps its room
(``has_room_for_growth``). This holds for records, too, that need no free room themselves, because
the log has room that was written in advance. Openings leave the last quarter, and a fence does not.
If other users of the device have taken the checkpoint's room already, no new ledger is opened. But
a fence, or a new fragment of a ledger that is known, is still taken: a recovery may need it.
"""

from collections.abc import Callable

from zonekeeper.bookie.disk.files import Space


class Reserve:
    """The room that is left free; any thread may ask."""

    def __init__(self, chosen_bytes: int, checkpoint_bytes: Callable[[], int]) -> None:
        """``checkpoint_bytes`` gives the most bytes that a checkpoint can have now."""
        self._chosen_bytes = chosen_bytes
        self._checkpoint_bytes = checkpoint_bytes
        #: The room on the device of the checkpoint at the last look; None: it is the log's device.
        self.checkpoint_space: Space | None = None
        #: The bytes of the present checkpoint, at the same look.
        self.present_bytes = 0

    @property
    def checkpoint_room_bytes(self) -> int:
        """The room that is left free for checkpoints."""
        return self._room_for(self._checkpoint_bytes())

    @property
    def appends_leave_bytes(self) -> int:
        """The room that plain appends, and writing in advance, leave free."""
        return self._chosen_bytes + self.checkpoint_room_bytes

    @property
    def rounds_leave_bytes(self) -> int:
        """The room that rounds and recoveries leave free."""
        return self._chosen_bytes // 2 + self.checkpoint_room_bytes

    @property
    def compaction_leaves_bytes(self) -> int:
        """The room that compaction leaves free."""
        return self._chosen_bytes // 4 + self.checkpoint_room_bytes

    def has_room_for_growth(
        self, free_bytes: int, growth_bytes: int, *, is_fence: bool, is_known: bool
    ) -> bool:
        """May a record make the checkpoint so much larger, if it leaves so much of its device?

        ``is_known``: the ledger was known here before.
        """
        most = self._checkpoint_bytes()
        if free_bytes < self._room_for(most):
            return is_fence or is_known
        left_bytes = 0 if is_fence else self._chosen_bytes // 4
        return free_bytes >= left_bytes + self._room_for(most + growth_bytes)

    def _room_for(self, next_bytes: int) -> int:
        return next_bytes + max(0, next_bytes - self.present_bytes)
