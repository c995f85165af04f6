"""The policy record: every rule that the owner of a cluster sets, as one value.

A cluster has one such record, and every client, bookie, auditor, replicator and zone watch obeys
it. The stored record spells field names in ``camelCase``. Here durations are whole milliseconds,
sizes are bytes, and their names say so. ``rules_data`` reads and writes the record.
"""

import enum
from dataclasses import dataclass, field

from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.base.units import DAY_MS, HOUR_MS, MIB, MINUTE_MS, SECOND_MS


class RepairScope(enum.StrEnum):
    """The repairs that a failed zone holds: those of its losses, or all of them."""

    ZONE = "zone"
    CLUSTER = "cluster"


class Resume(enum.StrEnum):
    """The end of a hold once the zone is back: by the zone watch, or by a person."""

    AUTOMATIC = "automatic"
    MANUAL = "manual"


class OnZoneLoss(enum.StrEnum):
    """The rule for a zone that stays away: the hold goes on, or repair begins after a time."""

    HOLD = "hold"
    REPAIR_AFTER = "repairAfter"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRules:
    """The rules for the places of ensembles."""

    zones: tuple[ZoneName, ...]
    min_zones: int = 2
    desired_zones: int = 3
    strict: bool = True
    upgrade_domains: int = 3
    #: A bookie's weight is at most this many times the median; 0 means no cap.
    weight_cap: float = 3
    quarantine_ms: int = 30 * MINUTE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRules:
    """In which order replicas are asked, and when the next one is asked."""

    #: A bookie with this many outstanding requests is asked later than others; 0 means off.
    pending_limit: int = 64
    failure_memory_ms: int = MINUTE_MS
    hedge_after_ms: int = 2 * SECOND_MS
    #: The best remote replica stands no later than this position, counted from 0.
    hedge_remote_at: int = 2
    demote_read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneWatchRules:
    """The rules by which a zone counts as down, and as back."""

    low_mark: float = 0.5
    high_mark: float = 0.9
    min_lost: int = 2
    written_off_alert: float = 0.25
    cluster_min_available: float = 0.5
    session_timeout_ms: int = 10 * SECOND_MS
    evaluate_every_ms: int = 10 * SECOND_MS
    start_grace_ms: int = 5 * MINUTE_MS
    suspect_for_ms: int = MINUTE_MS
    between_marks_for_ms: int = 30 * MINUTE_MS
    hold_up_ms: int = 5 * MINUTE_MS
    hold_up_max_ms: int = HOUR_MS
    flap_window_ms: int = HOUR_MS
    stand_in_after_ms: int = MINUTE_MS
    maintenance_max_ms: int = 2 * HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckIntervals:
    """The intervals at which the auditor checks everything again."""

    bookies_ms: int = DAY_MS
    placement_ms: int = DAY_MS
    replicas_ms: int = 7 * DAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairRules:
    """The rules of automatic repair: what is repaired, when, and how fast."""

    scope: RepairScope = RepairScope.ZONE
    #: The default is automatic, but manual where the scope is the cluster.
    resume: Resume = Resume.AUTOMATIC
    on_zone_loss: OnZoneLoss = OnZoneLoss.HOLD
    #: The held time after which ``repairAfter`` releases.
    after_ms: int = 6 * HOUR_MS
    remind_every_ms: int = HOUR_MS
    bookie_recovery_delay_ms: int = 5 * MINUTE_MS
    open_ledger_grace_ms: int = 30 * SECOND_MS
    #: How long the process of an open ledger's writer may have no session before the ledger is
    #: closed; 0 means that no ledger is closed for that.
    abandoned_after_ms: int = 0
    #: For one process; 0 means no limit.
    bytes_per_second: int = 50 * MIB
    respread: bool = True
    respread_bytes_per_second: int = 10 * MIB
    checks: CheckIntervals = field(default_factory=CheckIntervals)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The whole record."""

    placement: PlacementRules
    version: int = 1
    #: INSTANCEID of the cluster that the policy belongs to; empty before it is stored.
    instance: str = ""
    #: The only writer that may change it: ``shell``, or ``operator/<namespace>/<name>``.
    owner: str = "shell"
    quorums: Quorums = field(
        default_factory=lambda: Quorums(ensemble=3, write=3, ack=2, ack_zones=2)
    )
    digest: Digest = Digest.CRC32C
    reads: ReadRules = field(default_factory=ReadRules)
    zone_watch: ZoneWatchRules = field(default_factory=ZoneWatchRules)
    repair: RepairRules = field(default_factory=RepairRules)
    #: Fields of the stored record that this version does not know, each with its path and its JSON;
    #: they are written back unchanged.
    unknown: tuple[tuple[tuple[str, ...], str], ...] = ()
