"""What is noted in ``status.replacing`` of a bookie that gets another volume. Pure.

The status is written before a turn acts. So the claim is noted by its uid before the order stands,
and from then on a claim of another uid is the new one. If the notes are lost, the claim that is
there is noted, and the bookie gets one more volume.
"""

from dataclasses import dataclass

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.placement.base.ids import BookieId


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceNotes:
    """The bookie that a person named, and what it had before."""

    bookie: BookieId
    #: The uid of the claim that goes, and of that of the journal volume; "": there is none.
    claim: str
    journal: str = ""
    #: The uid of the pod that ran on it last.
    pod: str
    #: The bookie serves on another volume.
    is_done: bool = False


def read(status: Json) -> ReplaceNotes | None:
    """Read the notes; what cannot be read is lost."""
    told = status.get("replacing")
    if not isinstance(told, dict) or not all(told.get(one) for one in ("bookie", "claim")):
        return None
    return ReplaceNotes(
        bookie=BookieId(str(told["bookie"])),
        claim=str(told["claim"]),
        journal=str(told.get("journal") or ""),
        pod=str(told.get("pod") or ""),
        is_done=told.get("phase") == "Done",
    )


def plain(notes: ReplaceNotes) -> Json:
    """Give the notes as the status has them."""
    phase = "Done" if notes.is_done else "Replacing"
    told = {"bookie": notes.bookie, "claim": notes.claim, "pod": notes.pod, "phase": phase}
    return told | ({"journal": notes.journal} if notes.journal else {})
