"""The records of a bookie's log: frames as they were received, and changes of a ledger's state.

The state of a ledger is the result of its records, applied in order (``admission.applied``), and of
nothing else. Each record is complete by itself. For example, a fence record carries the master key,
so the fence also holds for a ledger that has no other record here.
"""

from dataclasses import dataclass, field
from typing import Self, TypeAlias

from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.formats import openings
from zonekeeper.wire.formats.digests import MasterKey
from zonekeeper.wire.formats.frames import Frame
from zonekeeper.wire.formats.openings import CheckedOpening, FragmentOpening


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentRecord:
    """A fragment was opened: a hint for a rebuild, and the ledger's key and digest.

    The record has the bytes of the opening and not the opening: what an opening names is chosen by
    a peer, and takes many times as much memory as objects.
    """

    spelled: bytes
    #: What ``spelled`` says.
    said: CheckedOpening

    @classmethod
    def of(cls, opening: FragmentOpening) -> Self:
        """Give the record of an opening."""
        spelled = openings.spell(opening)
        tail = openings.TOKEN_BYTES if opening.create_token else 0
        said = CheckedOpening(
            ledger_id=opening.ledger_id,
            first_entry_id=opening.first_entry_id,
            master_key=opening.master_key,
            digest=opening.digest,
            create_token=opening.create_token,
            names_end=len(spelled) - tail,
        )
        return cls(spelled=spelled, said=said)

    @classmethod
    def parse(cls, spelled: bytes) -> Self:
        """Give the record of an opening's bytes; raises ``FormatError``."""
        return cls(spelled=spelled, said=openings.check(spelled))

    @property
    def ledger_id(self) -> LedgerId:
        """The ledger that the record is about."""
        return self.said.ledger_id

    @property
    def opening(self) -> FragmentOpening:
        """The opening."""
        return openings.parse(self.spelled)

    @property
    def hint(self) -> bytes:
        """The opening's hint (``ledgers.hints``)."""
        return self.spelled[: self.said.names_end]


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceRecord:
    """The ledger is fenced: no plain append is taken from here on."""

    ledger_id: LedgerId
    master_key: MasterKey = field(repr=False)
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
