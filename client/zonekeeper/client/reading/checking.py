"""From a bookie's reply to entries that may be shown to somebody: only what its digest covers."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from zonekeeper.placement.base.ids import EntryId
from zonekeeper.wire.formats import frames
from zonekeeper.wire.formats.entries import Entry, EntryError, Sealer
from zonekeeper.wire.formats.frames import Frame


@dataclass(frozen=True, slots=True)
class CheckedReply:
    """What a reply holds: a bad copy says nothing of its entry, and nothing of the others."""

    #: In the order of their ids.
    good: list[Entry] = field(default_factory=list)
    bad: dict[EntryId, EntryError] = field(default_factory=dict)


def check(sealer: Sealer, parts: Sequence[Frame]) -> CheckedReply:
    """Check every copy of a reply."""
    checked = CheckedReply()
    for part in parts:
        try:
            checked.good.extend(frames.unseal(sealer, part))
        except EntryError:
            _check_each(sealer, part, checked)
    return checked


def _check_each(sealer: Sealer, part: Frame, checked: CheckedReply) -> None:
    """Tell the good copies of a frame from the bad ones."""
    for entry_id, packet in part:
        try:
            checked.good.append(sealer.open(packet, entry_id))
        except EntryError as error:
            checked.bad[entry_id] = error
