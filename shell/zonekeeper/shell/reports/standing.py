"""The alerts that stand, for people and for programs: one line an alert, with its runbook.

The alerts of zones and of the cluster stand in the records of the zone watch. What keeps bookies
from collecting stands in the store as well. So every command gives the same ones.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.zones import zone_alerts
from zonekeeper.placement.zones.zone_effects import Severity
from zonekeeper.placement.zones.zone_records import Record, ZoneRecord
from zonekeeper.replication.view import alerts, held_back
from zonekeeper.replication.view.view import View
from zonekeeper.shell.reaching import reaching

STYLES: Final = {Severity.PAGE: "red", Severity.WARNING: "yellow", Severity.INFO: ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingAlert:
    """One alert: what it is about, why it stands, and where it is said what to do."""

    about: str
    alert: str
    severity: Severity
    text: str
    runbook: str

    def plain(self) -> dict[str, str]:
        """Give the alert as plain data."""
        return {
            "about": self.about,
            "alert": self.alert,
            "severity": self.severity,
            "text": self.text,
            "runbook": self.runbook,
        }

    @property
    def line(self) -> str:
        """Give the alert as one line of text."""
        text = " ".join(self.text.split())
        return (
            f"{self.severity}: {self.about}: {self.alert}: {text} "
            f"(what to do: zonekeeper runbook {self.runbook})"
        )


def of_record(record: Record) -> list[StandingAlert]:
    """Give the alerts of the record of a zone, or of the cluster."""
    zone = record.zone if isinstance(record, ZoneRecord) else None
    return [
        StandingAlert(
            about=alerts.subject(zone),
            alert=one,
            severity=one.severity,
            text=zone_alerts.text(one, record),
            runbook=zone_alerts.runbook(one, of_zone=zone is not None),
        )
        for one in record.alerts
    ]


async def read(
    cluster: Cluster, view: View, zones: Collection[ZoneName] | None = None
) -> list[StandingAlert]:
    """Give all alerts that stand; ``zones``: of zones only those of these."""
    records: list[Record] = [
        one for zone, one in sorted(view.zones.items()) if zones is None or zone in zones
    ]
    if view.cluster_record is not None:
        records.append(view.cluster_record)
    found = [alert for record in records for alert in of_record(record)]
    for name, text in sorted((await held_back.standing(cluster)).items()):
        severity = held_back.SEVERITIES[name]
        about = alerts.subject(None)
        found.append(
            StandingAlert(about=about, alert=name, severity=severity, text=text, runbook=name)
        )
    return found


def show(found: Iterable[StandingAlert]) -> None:
    """Print a line for each alert."""
    console = reaching.console()
    for one in found:
        console.print(one.line, style=STYLES[one.severity], markup=False, soft_wrap=True)
