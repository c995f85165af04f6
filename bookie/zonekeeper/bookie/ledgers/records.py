"""What a bookie writes into its log: frames as they came, and changes of what it knows of a ledger.

The state of a ledger is what its records say, one after the other (``admission.applied``); there is
nothing else to remember. Each record is whole by itself: a fence carries the master key, so that a
fence of a ledger without entries is not forgotten for want of one.
"""

from dataclasses import dataclass
from typing import TypeAlias

from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.formats.digests import MasterKey
from zonekeeper.wire.formats.frames import Frame
from zonekeeper.wire.formats.openings import FragmentOpening


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentRecord:
    """A writer opened a fragment; a hint, and the ledger's key and digest."""

    opening: FragmentOpening

    @property
    def ledger_id(self) -> LedgerId:
        """Whose record this is."""
        return self.opening.ledger_id


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceRecord:
    """No plain append is taken from here on."""

    ledger_id: LedgerId
    master_key: MasterKey


@dataclass(frozen=True, slots=True, kw_only=True)
class LacRecord:
    """An explicit LAC."""

    ledger_id: LedgerId
    packet: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LimboRecord:
    """What this bookie has lost of the ledger is not known, or (``in_limbo`` false) it is again."""

    ledger_id: LedgerId
    in_limbo: bool


#: What changes the state of one ledger.
LedgerRecord: TypeAlias = FragmentRecord | FenceRecord | LacRecord | LimboRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeRecord:
    """A person made the bookie read-only, or writable again."""

    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRecord:
    """A ledger is gone for good: nothing of it that came before counts any more."""

    ledger_id: LedgerId


Record: TypeAlias = LedgerRecord | ModeRecord | ForgetRecord | Frame
