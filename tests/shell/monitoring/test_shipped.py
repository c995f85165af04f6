"""The dashboard and the rules: fresh, as Grafana and Prometheus read them, of metrics there are."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from click.testing import CliRunner

from tests.support.checkout_root import ROOT
from zonekeeper.shell.monitoring import alert_rules, metrics, panels, shipped
from zonekeeper.shell.monitoring.commands import monitoring

FOLDER: Final = ROOT / "charts" / "zonekeeper" / "monitoring"
FRESH: Final = {"dashboard": FOLDER / "dashboard.json", "rules": FOLDER / "rules.yaml"}
TABLE: Final = {metric.name: metric for metric in metrics.METRICS}
#: Labels that a scrape gives, whatever the process shows.
OF_SCRAPE: Final = {"instance"}
#: Labels that a join with ``zonekeeper_bookie_info`` gives.
JOINED: Final = {"bookie", "zone"}


def expressions() -> Iterator[str]:
    yield from (rule.expression for rule in alert_rules.RULES)
    for row in panels.ROWS:
        for panel in row.panels:
            yield from (query.expression for query in panel.queries)


@pytest.mark.parametrize("what", list(FRESH))
def test_the_chart_has_what_the_command_prints(what: str) -> None:
    made = CliRunner().invoke(monitoring, [what])
    assert made.exit_code == 0, made.output
    assert FRESH[what].read_text() == made.stdout, "run `make dashboards`"


def test_the_dashboard_is_what_grafana_imports() -> None:
    data = json.loads(shipped.dashboard())
    assert data["uid"] == "zonekeeper"
    assert "id" not in data, "Grafana gives one"
    assert data["schemaVersion"] == shipped.SCHEMA_VERSION
    (variable,) = data["templating"]["list"]
    assert (variable["name"], variable["type"], variable["query"]) == (
        "datasource",
        "datasource",
        "prometheus",
    )
    found = data["panels"]
    numbers = [panel["id"] for panel in found]
    assert len(set(numbers)) == len(numbers)
    graphs = [panel for panel in found if panel["type"] == "timeseries"]
    assert len(graphs) + len(panels.ROWS) == len(found)
    for panel in graphs:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        letters = [target["refId"] for target in panel["targets"]]
        assert letters == list("ABCDEF"[: len(letters)])
        assert all(target["expr"] and target["legendFormat"] for target in panel["targets"])
    titles = [panel["title"] for panel in found]
    assert len(set(titles)) == len(titles)


def test_no_panel_lies_over_another() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(shipped.dashboard())["panels"]:
        place: dict[str, int] = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        taken |= cells


def test_expressions_use_the_metrics_and_labels_of_the_table() -> None:
    for expression in expressions():
        bare = re.sub(r'"[^"]*"', '""', expression)
        named = re.findall(r"\b(?:zonekeeper|process)_\w+", bare)
        assert named, expression
        assert set(named) <= TABLE.keys(), expression
        labels = {label for name in named for label in TABLE[name].labels} | OF_SCRAPE
        used = set(re.findall(r"[{,](\w+)!?=", bare))
        for inside in re.findall(r"\b(?:by|on|group_left) \(([^)]*)\)", bare):
            used |= set(re.split(r",\s*", inside))
        assert used <= labels, expression


def test_each_metric_of_the_table_is_used() -> None:
    used = " ".join(expressions())
    assert [name for name in TABLE if not re.search(rf"\b{name}\b", used)] == []


def test_legends_name_labels_that_their_expressions_have() -> None:
    for row in panels.ROWS:
        for panel in row.panels:
            for query in panel.queries:
                wanted = set(re.findall(r"\{\{(\w+)\}\}", query.legend))
                found = {
                    label
                    for name in TABLE
                    if name in query.expression
                    for label in TABLE[name].labels
                }
                assert wanted <= found | OF_SCRAPE, query


def test_rates_are_of_what_only_grows_and_of_nothing_else() -> None:
    for expression in expressions():
        rated = set(re.findall(r"(?:rate|increase)\((\w+)", expression))
        grows = {name for name in TABLE if name.endswith(("_total", "_bucket"))}
        assert rated == {name for name in grows if re.search(rf"\b{name}\b", expression)}, (
            expression
        )


def test_a_wrong_label_of_a_metric_is_a_bug_at_once() -> None:
    with pytest.raises(AssertionError):
        metrics.ZONE_STATE.having(zoen="a")


def test_the_page_lists_each_rule_with_its_runbook() -> None:
    lines = (ROOT / "docs" / "monitoring.md").read_text().splitlines()
    rows = [
        f"| `{rule.name}` | {rule.severity} | {rule.lasts} | `{rule.expression}` | "
        f"[{rule.runbook}](../shell/zonekeeper/shell/runbooks/{rule.runbook}.md) |"
        for rule in alert_rules.RULES
    ]
    assert [line for line in lines if line in rows] == rows


def test_the_chart_ships_both_and_by_default_neither() -> None:
    values: dict[str, Any] = yaml.safe_load((FOLDER.parent / "values.yaml").read_text())
    assert values["monitoring"] == {
        "dashboard": False,
        "rules": False,
        "podMonitor": False,
        "certificate": "",
        "labels": {},
    }
    schema = json.loads((FOLDER.parent / "values.schema.json").read_text())
    assert schema["properties"]["monitoring"]["additionalProperties"] is False
    assert schema["properties"]["monitoring"]["properties"].keys() == values["monitoring"].keys()
    template = Path(FOLDER.parent / "templates" / "monitoring.yaml").read_text()
    for path in FRESH.values():
        assert f'.Files.Get "monitoring/{path.name}"' in template


def test_the_page_lists_each_metric_with_its_labels() -> None:
    lines = (ROOT / "docs" / "monitoring.md").read_text().splitlines()
    rows = [
        f"| `{metric.name}` | {', '.join(f'`{label}`' for label in metric.labels)} |"
        for metric in metrics.METRICS
    ]
    assert [line for line in lines if line in rows] == rows
