"""The gates of a roll: each thing that a step waits for has a name. Pure.

A gate that is not known to hold waits: unknown is not yes. Status, events, the gauge and the
operator's log use the names, and each name has a runbook.
"""

import enum
from dataclasses import dataclass


class RollGate(enum.StrEnum):
    """Each member has a runbook; where another part knew the name before, it means the same."""

    #: The image has not said yet that it reads what is there, or has said that it does not.
    IMAGE_NOT_VETTED = "imageNotVetted"
    #: A bookie that is asked for is not there, not ready, or not registered.
    BOOKIE_MISSING = "bookieMissing"
    #: A bookie takes no writes.
    BOOKIE_READ_ONLY = "bookieReadOnly"
    #: A bookie has lost data and does not have all of it again.
    BOOKIE_FILLS_IN = "bookieFillsIn"
    #: A bookie is being emptied.
    DRAINING = "draining"
    #: The zone watch does not see a zone up.
    ZONE_NOT_UP = "zoneNotUp"
    #: The losses of a zone, or of all, are not repaired now.
    ZONE_HELD = "zoneHeld"
    #: The zone watch has not looked at a zone since something changed, or is not seen at all.
    NOT_EVALUATED = "notEvaluatedSince"
    #: Ledgers are marked for repair.
    UNDER_REPLICATED = "underReplicated"
    #: With the unit away, entries of ledgers could not be read, or ledgers not be recovered.
    LEDGER_AT_RISK = "ledgerAtRisk"
    #: Another owner has declared maintenance, or another zone is open to a drain.
    IN_MAINTENANCE = "inMaintenance"
    #: The metadata store does not answer, or was not read yet.
    METADATA_UNREACHABLE = "metadataUnreachable"
    #: The roll rests after a step.
    BAKING = "baking"
    #: The resource says that no step begins.
    PAUSED = "paused"

    @property
    def runbook(self) -> str:
        """The command that prints what to do."""
        return f"zonekeeper runbook {self}"


@dataclass(frozen=True, slots=True)
class GateWait:
    """One gate that a step waits for."""

    gate: RollGate
    #: The bookies, zones or ledgers that it is about. It names no duration, because each new text
    #: costs a write of the status.
    what: str
    #: The runbook that says most, where that is not the gate's own.
    page: str | None = None

    @property
    def runbook(self) -> str:
        """The command that prints what to do."""
        return f"zonekeeper runbook {self.page or self.gate}"
