"""The panels of the dashboard, row by row: titles, units and expressions."""

from dataclasses import dataclass
from typing import Final

from zonekeeper.shell.monitoring import metrics
from zonekeeper.shell.monitoring.metrics import Metric

BYTES: Final = "bytes"
BYTES_A_SECOND: Final = "Bps"
SECONDS: Final = "s"
SHARE: Final = "percentunit"
NUMBER: Final = "short"


@dataclass(frozen=True, slots=True)
class Query:
    """A line, or several, of a panel."""

    expression: str
    #: The text of a line; Grafana fills the names of labels in.
    legend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One graph."""

    title: str
    unit: str
    queries: tuple[Query, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelRow:
    """Panels about one thing."""

    title: str
    panels: tuple[Panel, ...]


def _panel(title: str, unit: str, *queries: tuple[str, str]) -> Panel:
    return Panel(title=title, unit=unit, queries=tuple(Query(*one) for one in queries))


def _rate(metric: Metric | str) -> str:
    return f"rate({metric}[$__rate_interval])"


def _quantile(share: float, operation: str) -> str:
    """Give a quantile of an operation's time, by zone."""
    rate = _rate(metrics.OPERATION_SECONDS.having(operation=operation))
    return f"histogram_quantile({share}, sum by (zone, le) ({metrics.by_bookie(rate)}))"


def _times(operation: str) -> Panel:
    return _panel(
        f"{operation}: time by zone, p50 and p99",
        SECONDS,
        (_quantile(0.5, operation), "{{zone}} p50"),
        (_quantile(0.99, operation), "{{zone}} p99"),
    )


def _by_zone(metric: Metric) -> str:
    return f"sum by (zone) ({metrics.by_bookie(_rate(metric))})"


ROWS: Final = (
    PanelRow(
        title="Zones",
        panels=(
            _panel(
                "Alerts that stand",
                NUMBER,
                (
                    f"max by (alert, severity, zone) ({metrics.ALERT})",
                    "{{severity}} {{alert}} {{zone}}",
                ),
            ),
            _panel(
                "State of each zone",
                NUMBER,
                (f"max by (zone, state) ({metrics.ZONE_STATE})", "{{zone}} {{state}}"),
            ),
            _panel(
                "Bookies: available of those that count",
                NUMBER,
                (f"max by (zone) ({metrics.ZONE_AVAILABLE})", "{{zone}} available"),
                (f"max by (zone) ({metrics.ZONE_COUNTED})", "{{zone}} counted"),
            ),
            _panel(
                "Held: how long, and by what",
                SECONDS,
                (f"max by (zone) ({metrics.ZONE_HELD_SECONDS})", "{{zone}} held"),
                (f"max by (zone, by) ({metrics.REPAIR_HELD})", "{{zone}} by {{by}}"),
            ),
        ),
    ),
    PanelRow(
        title="Repair",
        panels=(
            _panel(
                "Queue: ledgers that wait, and under way",
                NUMBER,
                (f"max by (trouble) ({metrics.REPAIR_WAITING})", "waits: {{trouble}}"),
                (f"sum({metrics.REPAIR_UNDER_WAY})", "under way"),
            ),
            _panel(
                "Rate: bytes copied, by zones and cause",
                BYTES_A_SECOND,
                (
                    f"sum by (source, target, cause) ({_rate(metrics.BYTES_MOVED)})",
                    "{{source}} to {{target}}: {{cause}}",
                ),
            ),
            _panel(
                "Ledgers repaired, and obstacles",
                NUMBER,
                (f"sum({_rate(metrics.REPAIRED)})", "repaired a second"),
                (f"sum by (trouble) ({_rate(metrics.REPAIR_FAILED)})", "{{trouble}} a second"),
            ),
            _panel(
                "At risk: fragments with one reachable copy, or none",
                NUMBER,
                (f"max({metrics.LAST_COPY})", "one copy"),
                (f"max({metrics.OUT_OF_REACH})", "none"),
            ),
        ),
    ),
    PanelRow(
        title="Appends and reads",
        panels=(
            _panel(
                "Appended bytes by zone",
                BYTES_A_SECOND,
                (_by_zone(metrics.APPENDED_BYTES), "{{zone}}"),
            ),
            _times("append"),
            _panel(
                "Read bytes by zone", BYTES_A_SECOND, (_by_zone(metrics.READ_BYTES), "{{zone}}")
            ),
            _times("read"),
        ),
    ),
    PanelRow(
        title="Bookies",
        panels=(
            _panel(
                "Not ready, and read-only with the reason",
                NUMBER,
                (metrics.by_bookie(f"{metrics.BOOKIE_READY} == bool 0"), "{{bookie}} not ready"),
                (metrics.by_bookie(str(metrics.BOOKIE_READ_ONLY)), "{{bookie}} {{reason}}"),
            ),
            _panel(
                "Disk: used share of the device; arrival segments in use",
                SHARE,
                (
                    metrics.by_bookie(f"1 - {metrics.DISK_FREE} / {metrics.DISK_TOTAL}"),
                    "{{bookie}} device",
                ),
                (metrics.by_bookie(str(metrics.REWRITE_USED)), "{{bookie}} arrival segments"),
            ),
            _panel(
                "Appends that wait for the disk",
                BYTES,
                (metrics.by_bookie(str(metrics.WAITING_BYTES)), "{{bookie}}"),
            ),
            _panel(
                "Requests that were refused or failed, a second",
                NUMBER,
                (
                    "sum by (bookie, operation, outcome) "
                    f"({metrics.by_bookie(_rate(metrics.OPERATIONS.without(outcome='OK')))})",
                    "{{bookie}} {{operation}} {{outcome}}",
                ),
            ),
        ),
    ),
    PanelRow(
        title="The operator",
        panels=(
            _panel(
                "Processes that act, and that stand by",
                NUMBER,
                (str(metrics.OPERATOR_ACTS), "{{instance}} acts"),
                (str(metrics.OPERATOR_STANDS_BY), "{{instance}} stands by"),
            ),
            _panel(
                "What a cluster waits for, and its roll",
                NUMBER,
                (
                    f"max by (resource, predicate) ({metrics.OPERATOR_WAITS})",
                    "{{resource}} {{predicate}}",
                ),
                (
                    f"max by (resource, gate) ({metrics.OPERATOR_GATE_WAITS})",
                    "{{resource}} roll: {{gate}}",
                ),
            ),
            _panel(
                "Bookies ready of those asked for; pods updated of all",
                NUMBER,
                (f"max by (resource) ({metrics.OPERATOR_BOOKIES_READY})", "{{resource}} ready"),
                (f"max by (resource) ({metrics.OPERATOR_BOOKIES_ASKED})", "{{resource}} asked"),
                (f"max by (resource) ({metrics.OPERATOR_PODS_UPDATED})", "{{resource}} updated"),
                (f"max by (resource) ({metrics.OPERATOR_PODS})", "{{resource}} pods"),
            ),
            _panel(
                "Turns a second, and what failed",
                NUMBER,
                (f"sum by (resource) ({_rate(metrics.OPERATOR_TURNS)})", "{{resource}} turns"),
                (
                    f"sum by (resource) ({_rate(metrics.OPERATOR_TURNS_FAILED)})",
                    "{{resource}} turns failed",
                ),
                (
                    f"sum by (resource) ({_rate(metrics.OPERATOR_ACTS_FAILED)})",
                    "{{resource}} acts failed",
                ),
            ),
        ),
    ),
    PanelRow(
        title="Processes and the metadata store",
        panels=(
            _panel(
                "Connected with the metadata store",
                NUMBER,
                (str(metrics.STORE_CONNECTED), "{{instance}}"),
            ),
            _panel("Memory", BYTES, (str(metrics.PROCESS_MEMORY), "{{instance}}")),
            _panel(
                "Descriptors: used share of the limit",
                SHARE,
                (
                    f"{metrics.PROCESS_DESCRIPTORS} / {metrics.PROCESS_DESCRIPTORS_MAX}",
                    "{{instance}}",
                ),
            ),
            _panel("Processor: cores in use", NUMBER, (_rate(metrics.PROCESS_CPU), "{{instance}}")),
        ),
    ),
)
