"""The alert rules: which there are, when each fires, how severe it is, and its runbook.

There is one vocabulary. The alerts that a zone watch raises (``Alert``) and those of collection
(``held_back``) are metrics of every autorecovery process, and their rules only pass them on, under
their names and severities. The other rules are about processes: what does not work is not seen from
within. Each rule names a page of ``zonekeeper runbook``.
"""

from dataclasses import dataclass
from typing import Final

from zonekeeper.placement.zones import zone_alerts
from zonekeeper.placement.zones.losses import HeldBy
from zonekeeper.placement.zones.zone_effects import Alert, Severity
from zonekeeper.replication.view import held_back
from zonekeeper.shell.monitoring import metrics

#: Above this used share of its device, a bookie is near read-only (``--disk-full``).
DISK_USED_MAX: Final = 0.9
#: An order of which nothing moves for longer waits for a person.
ORDER_STILL_S_MAX: Final = 3_600
#: A turn comes twice a minute at rest.
WITHOUT_TURN_S_MAX: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """One alert rule."""

    name: str
    expression: str
    #: How long the expression must hold, as Prometheus spells it.
    lasts: str
    severity: Severity
    #: The name of the page of ``zonekeeper runbook``.
    runbook: str
    #: One line for the person who is called; Prometheus fills its braces in.
    summary: str


def _passed_on(name: str, severity: Severity, runbook: str) -> AlertRule:
    """Give the rule of an alert that autorecovery processes show."""
    return AlertRule(
        name=name,
        expression=f"max by (zone) ({metrics.ALERT.having(alert=name)}) == 1",
        lasts="0m",
        severity=severity,
        runbook=runbook,
        summary=f"{name}{{{{ if $labels.zone }}}} of zone {{{{ $labels.zone }}}}{{{{ end }}}} "
        "stands: zonekeeper zones status",
    )


_OF_ZONES: Final = tuple(
    _passed_on(str(alert), alert.severity, zone_alerts.runbook(alert, of_zone=True))
    for alert in Alert
)
_OF_COLLECTION: Final = tuple(
    _passed_on(name, severity, name) for name, severity in held_back.SEVERITIES.items()
)
_OF_PROCESSES: Final = (
    AlertRule(
        name="autorecoveryAbsent",
        expression=f"absent({metrics.AUTORECOVERY_READY} == 1)",
        lasts="5m",
        severity=Severity.PAGE,
        runbook="autorecoveryAbsent",
        summary="no autorecovery process is ready: nothing is judged, marked or repaired",
    ),
    AlertRule(
        name=str(HeldBy.NOT_WATCHED),
        expression=f"max by (zone) (increase({metrics.ZONE_EVALUATIONS}[5m])) == 0",
        lasts="5m",
        severity=Severity.PAGE,
        runbook=str(HeldBy.NOT_WATCHED),
        summary="zone {{ $labels.zone }} was not evaluated for five minutes: its losses are held",
    ),
    AlertRule(
        name="lastCopy",
        expression=f"max({metrics.LAST_COPY} + {metrics.OUT_OF_REACH}) > 0",
        lasts="1m",
        severity=Severity.PAGE,
        runbook="lastCopy",
        summary="{{ $value }} fragments have entries with one reachable copy, or none",
    ),
    AlertRule(
        name="orderStandsStill",
        expression=f"max by (bookie, order) ({metrics.ORDER_STILL}) > {ORDER_STILL_S_MAX}",
        lasts="0m",
        severity=Severity.WARNING,
        runbook="orderStandsStill",
        summary="nothing moved of the order to {{ $labels.order }} {{ $labels.bookie }} for "
        "{{ $value | humanizeDuration }}",
    ),
    AlertRule(
        name="bookieNotReady",
        expression=metrics.by_bookie(f"{metrics.BOOKIE_READY} == bool 0") + " == 1",
        lasts="5m",
        severity=Severity.WARNING,
        runbook="bookieNotReady",
        summary="bookie {{ $labels.bookie }} of zone {{ $labels.zone }} is not ready",
    ),
    AlertRule(
        name="bookieReadOnly",
        expression=metrics.by_bookie(metrics.BOOKIE_READ_ONLY.without(reason=metrics.BY_PERSON))
        + " == 1",
        lasts="10m",
        severity=Severity.WARNING,
        runbook="bookieReadOnly",
        summary="bookie {{ $labels.bookie }} of zone {{ $labels.zone }} is read-only: "
        "{{ $labels.reason }}",
    ),
    AlertRule(
        name="bookieDiskFilling",
        expression=metrics.by_bookie(f"1 - {metrics.DISK_FREE} / {metrics.DISK_TOTAL}")
        + f" > {DISK_USED_MAX}",
        lasts="15m",
        severity=Severity.WARNING,
        runbook="bookieDiskFilling",
        summary="the device of bookie {{ $labels.bookie }} is {{ $value | humanizePercentage }} "
        "used",
    ),
    AlertRule(
        name="storeAway",
        expression=f"{metrics.STORE_CONNECTED} == 0",
        lasts="2m",
        severity=Severity.WARNING,
        runbook="storeAway",
        summary="{{ $labels.instance }} does not reach the metadata store",
    ),
)
#: The log keeper does nothing while the root is restored, which is an alert of its own.
_OF_LOGS: Final = (
    AlertRule(
        name="logsNotKept",
        expression=f"max({metrics.LOGS_FAILING}) > 0",
        lasts="1h",
        severity=Severity.WARNING,
        runbook="logsNotKept",
        summary="the log keeper could not look after {{ $value }} logs for an hour",
    ),
    AlertRule(
        name="strayLogLedgers",
        expression=f"max({metrics.STRAY_LEDGERS}) > 0",
        lasts="13h",
        severity=Severity.WARNING,
        runbook="strayLogLedgers",
        summary="{{ $value }} ledgers were made for logs that have no record, or an older one",
    ),
    AlertRule(
        name="logKeeperStandsStill",
        expression=f"sum(increase({metrics.LOG_KEEPER_ROUNDS}[1h])) == 0 "
        f"unless max({metrics.LOG_KEEPER_HELD}) == 1",
        lasts="1h",
        severity=Severity.WARNING,
        runbook="logKeeperStandsStill",
        summary="no round over the logs has ended for an hour: retention waits",
    ),
)
#: An operator that was never scraped is no alert: a cluster may run without one.
_OF_OPERATOR: Final = (
    AlertRule(
        name="operatorAbsent",
        expression=f"max(max_over_time({metrics.OPERATOR_ACTS}[1d])) == 1 "
        f"unless max({metrics.OPERATOR_ACTS}) == 1",
        lasts="5m",
        severity=Severity.WARNING,
        runbook="operatorAbsent",
        summary="no process of the operator acts, and one did within a day",
    ),
    AlertRule(
        name="operatorWithoutTurn",
        expression=f"max by (resource) ({metrics.OPERATOR_WITHOUT_TURN}) > {WITHOUT_TURN_S_MAX}",
        lasts="0m",
        severity=Severity.WARNING,
        runbook="operatorWithoutTurn",
        summary="no turn of {{ $labels.resource }} ended well for five minutes",
    ),
    AlertRule(
        name="rollHalted",
        expression="max by (resource) "
        f"({metrics.OPERATOR_CONDITION.having(type='Rolling', reason='Halted')}) == 1",
        lasts="0m",
        severity=Severity.WARNING,
        runbook="rollHalted",
        summary="the roll of {{ $labels.resource }} has stopped by itself",
    ),
)

RULES: Final = (*_OF_ZONES, *_OF_COLLECTION, *_OF_PROCESSES, *_OF_LOGS, *_OF_OPERATOR)
