"""The metrics that the dashboard and the alert rules use, with their labels.

Each is named here once, and expressions are made of these names. A test compares the table with the
pages of a real bookie, autorecovery process and operator: names, kinds and labels. So a metric that
is renamed breaks that test, and not a dashboard that a person looks at in an outage.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric, and the labels that its samples have beside those of the scrape."""

    name: str
    labels: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name

    def having(self, **labels: str) -> str:
        """Give the selector of its samples with these labels."""
        assert labels.keys() <= set(self.labels), (self, labels)
        inside = ",".join(f'{label}="{value}"' for label, value in labels.items())
        return f"{self.name}{{{inside}}}"

    def without(self, **labels: str) -> str:
        """Give the selector of its samples without these labels."""
        return self.having(**labels).replace('="', '!="')


# ── autorecovery ──

AUTORECOVERY_READY: Final = Metric("zonekeeper_autorecovery_ready")
ALERT: Final = Metric("zonekeeper_alert", ("alert", "severity", "zone"))
ZONE_STATE: Final = Metric("zonekeeper_zone_state", ("state", "zone"))
ZONE_AVAILABLE: Final = Metric("zonekeeper_zone_available_bookies", ("zone",))
ZONE_COUNTED: Final = Metric("zonekeeper_zone_counted_bookies", ("zone",))
ZONE_HELD_SECONDS: Final = Metric("zonekeeper_zone_held_seconds", ("zone",))
ZONE_EVALUATIONS: Final = Metric("zonekeeper_zone_evaluations_total", ("zone",))
REPAIR_HELD: Final = Metric("zonekeeper_repair_held", ("by", "zone"))
REPAIR_WAITING: Final = Metric("zonekeeper_repair_waiting", ("trouble",))
REPAIR_UNDER_WAY: Final = Metric("zonekeeper_repair_under_way")
REPAIR_FAILED: Final = Metric("zonekeeper_repair_failed_total", ("trouble",))
REPAIRED: Final = Metric("zonekeeper_repair_ledgers_repaired_total")
BYTES_MOVED: Final = Metric("zonekeeper_repair_bytes_moved_total", ("cause", "source", "target"))
ORDER_STILL: Final = Metric("zonekeeper_order_still_seconds", ("bookie", "order"))
LAST_COPY: Final = Metric("zonekeeper_auditor_fragments_at_last_copy")
OUT_OF_REACH: Final = Metric("zonekeeper_auditor_fragments_out_of_reach")
LOG_KEEPER_HELD: Final = Metric("zonekeeper_log_keeper_held")
LOG_KEEPER_ROUNDS: Final = Metric("zonekeeper_log_keeper_rounds_total")
LOGS_FAILING: Final = Metric("zonekeeper_log_keeper_failing_logs")
STRAY_LEDGERS: Final = Metric("zonekeeper_log_keeper_stray_ledgers")

# ── bookies ──

BOOKIE_INFO: Final = Metric("zonekeeper_bookie_info", ("bookie", "version", "zone"))
BOOKIE_READY: Final = Metric("zonekeeper_bookie_ready")
BOOKIE_READ_ONLY: Final = Metric("zonekeeper_bookie_read_only", ("reason",))
DISK_FREE: Final = Metric("zonekeeper_bookie_disk_free_bytes")
DISK_TOTAL: Final = Metric("zonekeeper_bookie_disk_total_bytes")
WAITING_BYTES: Final = Metric("zonekeeper_bookie_waiting_bytes")
OPERATIONS: Final = Metric("zonekeeper_bookie_operations_total", ("operation", "outcome"))
OPERATION_SECONDS: Final = Metric("zonekeeper_bookie_operation_seconds_bucket", ("le", "operation"))
APPENDED_BYTES: Final = Metric("zonekeeper_bookie_appended_bytes_total")
READ_BYTES: Final = Metric("zonekeeper_bookie_read_bytes_total")
REWRITE_USED: Final = Metric("zonekeeper_bookie_rewrite_used_share")

# ── the operator ──

OPERATOR_ACTS: Final = Metric("zonekeeper_operator_acts")
OPERATOR_STANDS_BY: Final = Metric("zonekeeper_operator_stands_by")
OPERATOR_TURNS: Final = Metric("zonekeeper_operator_turns_total", ("resource",))
OPERATOR_TURNS_FAILED: Final = Metric("zonekeeper_operator_turns_failed_total", ("resource",))
OPERATOR_ACTS_FAILED: Final = Metric("zonekeeper_operator_acts_failed_total", ("resource",))
OPERATOR_WITHOUT_TURN: Final = Metric("zonekeeper_operator_without_turn_seconds", ("resource",))
OPERATOR_WAITS: Final = Metric("zonekeeper_operator_waits", ("predicate", "resource"))
OPERATOR_GATE_WAITS: Final = Metric("zonekeeper_operator_gate_waits", ("gate", "resource"))
OPERATOR_CONDITION: Final = Metric(
    "zonekeeper_operator_condition", ("reason", "resource", "status", "type")
)
OPERATOR_BOOKIES_ASKED: Final = Metric("zonekeeper_operator_bookies_asked", ("resource",))
OPERATOR_BOOKIES_READY: Final = Metric("zonekeeper_operator_bookies_ready", ("resource",))
OPERATOR_PODS: Final = Metric("zonekeeper_operator_pods", ("resource",))
OPERATOR_PODS_UPDATED: Final = Metric("zonekeeper_operator_pods_updated", ("resource",))

# ── several kinds of processes ──

STORE_CONNECTED: Final = Metric("zonekeeper_store_connected")
PROCESS_MEMORY: Final = Metric("process_resident_memory_bytes")
PROCESS_DESCRIPTORS: Final = Metric("process_open_fds")
PROCESS_DESCRIPTORS_MAX: Final = Metric("process_max_fds")
PROCESS_CPU: Final = Metric("process_cpu_seconds_total")

#: The reason of a bookie that a person made read-only: nobody is told what they did themselves.
BY_PERSON: Final = "by a person's order"

METRICS: Final = tuple(value for value in tuple(globals().values()) if isinstance(value, Metric))


def by_bookie(expression: str) -> str:
    """Give an expression of a bookie's own samples the labels ``bookie`` and ``zone``."""
    return f"({expression}) * on (instance) group_left (bookie, zone) {BOOKIE_INFO}"
