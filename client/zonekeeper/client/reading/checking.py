"""Check a bookie's reply: only entries whose digest matches are given on."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from zonekeeper.placement.base.ids import EntryId
from zonekeeper.wire.formats import frames
from zonekeeper.wire.formats.entries import Entry, EntryError, Sealer
from zonekeeper.wire.formats.frames import Frame


@dataclass(frozen=True, slots=True)
class CheckedReply:
    """The copies of a reply, good and bad.

    A bad copy proves nothing about its entry. It does not make the other copies bad.
    """

    #: In the order of their ids.
    good: list[Entry] = field(default_factory=list)
    #: The flaw of each bad copy, by the id that the bookie gave it.
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
    """Check the copies of a frame one by one, after the frame as a whole failed."""
    for entry_id, packet in part:
        try:
            checked.good.append(sealer.open(packet, entry_id))
        except EntryError as error:
            checked.bad[entry_id] = error
