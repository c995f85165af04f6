"""From a bookie's reply to entries that may be shown to somebody: only what its digest covers."""

from collections.abc import Sequence
from dataclasses import dataclass

from zonekeeper.placement.ids import EntryId
from zonekeeper.wire import frames
from zonekeeper.wire.entries import Entry, EntryError, Sealer
from zonekeeper.wire.frames import Frame


@dataclass(frozen=True, slots=True)
class Checked:
    """The good entries before the first bad one."""

    entries: list[Entry]
    #: What is wrong with the copy that follows them; None: nothing.
    bad: EntryError | None


def check(sealer: Sealer, parts: Sequence[Frame]) -> Checked:
    """Check frames in their order, up to the first bad copy."""
    good: list[Entry] = []
    for part in parts:
        try:
            good += frames.unseal(sealer, part)
        except EntryError as error:
            good += _before(sealer, part, error.entry_id)
            return Checked(good, error)
    return Checked(good, None)


def _before(sealer: Sealer, part: Frame, bad: EntryId | None) -> list[Entry]:
    """Give what is good in a frame before its first bad copy."""
    good: list[Entry] = []
    for entry_id, packet in part:
        if entry_id == bad:
            break
        good.append(sealer.open(packet, entry_id))
    return good
