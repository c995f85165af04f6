"""The files that are shipped: a dashboard for Grafana, and a rule file for Prometheus.

Both are made of the tables (``panels``, ``alert_rules``). ``make dashboards`` writes them where the
chart takes them from, and a test says when they are stale.
"""

import json
from collections.abc import Iterator
from typing import Final

import yaml

from zonekeeper.shell.monitoring import alert_rules, panels
from zonekeeper.shell.monitoring.alert_rules import AlertRule
from zonekeeper.shell.monitoring.panels import Panel

DASHBOARD_UID: Final = "zonekeeper"
#: The version of Grafana's schema of dashboards: that of Grafana 11, which later ones migrate.
SCHEMA_VERSION: Final = 39
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH: Final = 24
_PANEL_HEIGHT: Final = 8
_IN_A_LINE: Final = 2


def dashboard() -> str:
    """Give the dashboard as Grafana imports it."""
    data = {
        "uid": DASHBOARD_UID,
        "title": "zonekeeper",
        "tags": ["zonekeeper"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {
                    "name": "datasource",
                    "label": "Prometheus",
                    "type": "datasource",
                    "query": "prometheus",
                }
            ]
        },
        "panels": list(_panels()),
    }
    return json.dumps(data, indent=1) + "\n"


def rules() -> str:
    """Give the rule file as Prometheus reads it."""
    groups = [{"name": "zonekeeper", "rules": [_rule(one) for one in alert_rules.RULES]}]
    return yaml.safe_dump({"groups": groups}, sort_keys=False, width=1_000)


def _panels() -> Iterator[dict[str, object]]:
    number = below = 0
    for row in panels.ROWS:
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "panels": [],
            "gridPos": {"x": 0, "y": below, "w": _WIDTH, "h": 1},
        }
        below += 1
        for at, panel in enumerate(row.panels):
            number += 1
            place = {
                "x": at % _IN_A_LINE * (_WIDTH // _IN_A_LINE),
                "y": below + at // _IN_A_LINE * _PANEL_HEIGHT,
                "w": _WIDTH // _IN_A_LINE,
                "h": _PANEL_HEIGHT,
            }
            yield _panel(number, panel, place)
        below += -(-len(row.panels) // _IN_A_LINE) * _PANEL_HEIGHT


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, object]:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {
                "refId": chr(ord("A") + at),
                "datasource": _SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
            }
            for at, query in enumerate(panel.queries)
        ],
    }


def _rule(rule: AlertRule) -> dict[str, object]:
    return {
        "alert": rule.name,
        "expr": rule.expression,
        "for": rule.lasts,
        "labels": {"severity": str(rule.severity)},
        "annotations": {
            "summary": rule.summary,
            "runbook": f"zonekeeper runbook {rule.runbook}",
        },
    }
