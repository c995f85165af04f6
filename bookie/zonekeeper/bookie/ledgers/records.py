"""The records of a bookie's log: frames as they were received, and changes of a ledger's state.

The state of a ledger is the result of its records, applied in order (``admission.applied``), and of
nothing else. Each record is complete by itself. For example, a fence record carries the master key,
so the fence also holds for a ledger that has no other record here.
"""

from dataclasses import dataclass
from typing import TypeAlias

from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.formats.digests import MasterKey
from zonekeeper.wire.formats.frames import Frame
from zonekeeper.wire.formats.openings import FragmentOpening


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentRecord:
    """A fragment was opened: a hint for a rebuild, and the ledger's key and digest."""

    opening: FragmentOpening

    @property
    def ledger_id(self) -> LedgerId:
        """The ledger that the record is about."""
        return self.opening.ledger_id


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceRecord:
    """The ledger is fenced: no plain append is taken from here on."""

    ledger_id: LedgerId
    master_key: MasterKey
    #: The create token of the ledger; 0: not known.
    create_token: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LacRecord:
    """An explicit LAC was told."""

    ledger_id: LedgerId
    packet: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LimboRecord:
    """The ledger enters limbo (``in_limbo``), or leaves it.

    In limbo it is unknown which entries of the ledger the bookie has lost.
    """

    ledger_id: LedgerId
    in_limbo: bool


#: The records that change the state of one ledger.
LedgerRecord: TypeAlias = FragmentRecord | FenceRecord | LacRecord | LimboRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeRecord:
    """A person made the bookie read-only, or writable again."""

    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRecord:
    """A ledger was deleted for good: no earlier record or frame of it counts any more.

    Only its tombstone stays, if it leaves one.
    """

    ledger_id: LedgerId
    #: The create token of the ledger; 0: not known.
    create_token: int = 0
    #: When it was forgotten, by the bookie's wall clock; 0: it leaves no tombstone.
    at_ms: int = 0


Record: TypeAlias = LedgerRecord | ModeRecord | ForgetRecord | Frame
