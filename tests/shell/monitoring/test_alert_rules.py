"""The alert rules under Prometheus' own promtool: each fires when it must, and not beside it."""

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import promtool
from zonekeeper.bookie.serving import modes
from zonekeeper.placement.zones.zone_effects import Alert, Severity
from zonekeeper.replication.view import held_back
from zonekeeper.shell.monitoring import alert_rules, metrics, shipped
from zonekeeper.shell.monitoring.alert_rules import AlertRule
from zonekeeper.shell.runbooks import shelf

RULES = {rule.name: rule for rule in alert_rules.RULES}
INFO = 'zonekeeper_bookie_info{instance="i1",bookie="bk-a-0",version="1",zone="a"}'
ON_BOOKIE = {"instance": "i1", "bookie": "bk-a-0", "zone": "a"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """Series, a value a minute, under which a rule fires from one minute to another."""

    series: dict[str, str]
    #: Minutes at which the alert fires, and at which it does not.
    fires: tuple[int, ...]
    silent: tuple[int, ...]
    labels: dict[str, str] = field(default_factory=dict)
    summary: str | None = None


def passed_on(name: str) -> Played:
    """An alert that stands from minute 5 to 15 in two processes, and another one all the time."""
    other = "zoneDown" if name != "zoneDown" else "zoneSuspect"
    shown = f'zonekeeper_alert{{alert="{name}",severity="x",zone="a"'
    return Played(
        series={
            f'{shown},instance="i1"}}': "_x5 1x9 _x30",
            f'{shown},instance="i2"}}': "_x6 1x8 _x30",
            f'zonekeeper_alert{{alert="{other}",severity="x",zone="b",instance="i1"}}': "1x40",
        },
        fires=(6, 10, 14),
        silent=(2, 30),
        labels={"zone": "a"},
        summary=f"{name} of zone a stands: zonekeeper zones status",
    )


PLAYED = {
    **{name: passed_on(name) for name in [*map(str, Alert), *held_back.SEVERITIES]},
    "autorecoveryAbsent": Played(
        series={
            'zonekeeper_autorecovery_ready{instance="i1"}': "1x10 0x10 1x30",
            'zonekeeper_autorecovery_ready{instance="i2"}': "1x10 stale",
        },
        fires=(17, 20),
        silent=(5, 13, 30),
    ),
    "zoneNotWatched": Played(
        series={
            'zonekeeper_zone_evaluations_total{zone="a",instance="i1"}': "0+6x10 60x20 60+6x30",
            'zonekeeper_zone_evaluations_total{zone="b",instance="i1"}': "0+6x60",
        },
        fires=(22, 29),
        silent=(8, 15, 45),
        labels={"zone": "a"},
    ),
    "lastCopy": Played(
        series={
            "zonekeeper_auditor_fragments_at_last_copy": "0x10 2x10 0x20",
            "zonekeeper_auditor_fragments_out_of_reach": "0x10 1x10 0x20",
        },
        fires=(13, 20),
        silent=(5, 25),
        summary="3 fragments have entries with one reachable copy, or none",
    ),
    "orderStandsStill": Played(
        series={
            'zonekeeper_order_still_seconds{bookie="bk-b-0",order="remove",instance="i1"}': (
                "3600x5 4000x20 0x30"
            ),
            'zonekeeper_order_still_seconds{bookie="bk-c-0",order="drain",instance="i1"}': "0x60",
        },
        fires=(10, 20),
        silent=(4, 40),
        labels={"bookie": "bk-b-0", "order": "remove"},
        summary="nothing moved of the order to remove bk-b-0 for 1h 6m 40s",
    ),
    "bookieNotReady": Played(
        series={INFO: "1x60", 'zonekeeper_bookie_ready{instance="i1"}': "1x10 0x10 1x5 0x3 1x30"},
        fires=(17, 20),
        silent=(5, 14, 23, 28),
        labels=ON_BOOKIE,
        summary="bookie bk-a-0 of zone a is not ready",
    ),
    "bookieReadOnly": Played(
        series={
            INFO: "1x60",
            'zonekeeper_bookie_read_only{instance="i1",reason="full"}': "_x5 1x20 _x40",
            'zonekeeper_bookie_read_only{instance="i1",reason="by a person\'s order"}': "1x60",
        },
        fires=(17, 25),
        silent=(4, 12, 40),
        labels={**ON_BOOKIE, "reason": "full"},
        summary="bookie bk-a-0 of zone a is read-only: full",
    ),
    "bookieDiskFilling": Played(
        series={
            INFO: "1x60",
            'zonekeeper_bookie_disk_total_bytes{instance="i1"}': "100x60",
            'zonekeeper_bookie_disk_free_bytes{instance="i1"}': "20x10 5x25 10x25",
        },
        fires=(27, 34),
        silent=(5, 20, 45),
        labels=ON_BOOKIE,
        summary="the device of bookie bk-a-0 is 95% used",
    ),
    "storeAway": Played(
        series={
            'zonekeeper_store_connected{instance="i1"}': "1x10 0x10 1x30",
            'zonekeeper_store_connected{instance="i2"}': "1x50",
        },
        fires=(13, 20),
        silent=(5, 11, 25),
        labels={"instance": "i1"},
        summary="i1 does not reach the metadata store",
    ),
    "logsNotKept": Played(
        series={
            'zonekeeper_log_keeper_failing_logs{instance="i1"}': "0x10 2x90 0x40",
            'zonekeeper_log_keeper_failing_logs{instance="i2"}': "0x140",
        },
        fires=(75, 95),
        silent=(5, 60, 110),
        summary="the log keeper could not look after 2 logs for an hour",
    ),
    "strayLogLedgers": Played(
        series={'zonekeeper_log_keeper_stray_ledgers{instance="i1"}': "0x10 3x900 0x40"},
        fires=(800, 900),
        silent=(5, 700, 930),
        summary="3 ledgers were made for logs that have no record, or an older one",
    ),
    "logKeeperStandsStill": Played(
        series={
            'zonekeeper_log_keeper_rounds_total{instance="i1"}': "0+1x20 20x200 21+1x40",
            'zonekeeper_log_keeper_rounds_total{instance="i2"}': "0x260",
            'zonekeeper_log_keeper_held{instance="i1"}': "0x180 1x20 0x60",
        },
        fires=(145, 175),
        silent=(10, 70, 130, 190, 240),
    ),
    "operatorAbsent": Played(
        series={
            'zonekeeper_operator_acts{instance="i1"}': "1x10 0x40",
            'zonekeeper_operator_acts{instance="i2"}': "0x20 1x10 stale",
        },
        fires=(18, 20, 40),
        silent=(5, 14, 25, 32),
    ),
    "operatorWithoutTurn": Played(
        series={
            'zonekeeper_operator_without_turn_seconds{resource="logs/log",instance="i1"}': (
                "30x5 0+60x8 30x10"
            ),
            'zonekeeper_operator_without_turn_seconds{resource="logs/b",instance="i1"}': "30x40",
        },
        fires=(12, 14),
        silent=(5, 11, 20),
        labels={"resource": "logs/log"},
        summary="no turn of logs/log ended well for five minutes",
    ),
    "rollHalted": Played(
        series={
            'zonekeeper_operator_condition{resource="logs/log",type="Rolling",status="False",'
            'reason="Halted"}': "_x5 1x10 _x20",
            'zonekeeper_operator_condition{resource="logs/b",type="Rolling",status="True",'
            'reason="Rolling"}': "1x40",
        },
        fires=(7, 14),
        silent=(3, 25),
        labels={"resource": "logs/log"},
        summary="the roll of logs/log has stopped by itself",
    ),
}


def as_test(rule: AlertRule, played: Played) -> dict[str, Any]:
    """Spell a case as promtool reads it."""
    labels = {"severity": str(rule.severity), **played.labels}
    annotations = {
        "runbook": f"zonekeeper runbook {rule.runbook}",
        "summary": played.summary or rule.summary.replace("{{ $labels.zone }}", "a"),
    }
    firing = [{"exp_labels": labels, "exp_annotations": annotations}]
    return {
        "interval": "1m",
        "input_series": [
            {"series": series, "values": values} for series, values in played.series.items()
        ],
        "alert_rule_test": [
            {"eval_time": f"{minute}m", "alertname": rule.name, "exp_alerts": expected}
            for minutes, expected in ((played.fires, firing), (played.silent, []))
            for minute in minutes
        ],
    }


def run(
    folder: Path, tests: list[dict[str, Any]], *, rules: str
) -> subprocess.CompletedProcess[str]:
    tool = promtool.require()
    (folder / "rules.yaml").write_text(rules)
    whole = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}
    (folder / "tests.yaml").write_text(yaml.safe_dump(whole))
    return subprocess.run(
        [tool, "test", "rules", "tests.yaml"],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.contracts
def test_s165_each_alert_fires_when_it_must_and_goes_silent_after(tmp_path: Path) -> None:
    tests = [as_test(rule, PLAYED[name]) for name, rule in RULES.items()]
    done = run(tmp_path, tests, rules=shipped.rules())
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.contracts
def test_a_rule_that_never_fires_is_noticed(tmp_path: Path) -> None:
    """The suite is worth something: the same cases fail under rules with other metrics."""
    spoilt = shipped.rules().replace("zonekeeper_store_connected", "zonekeeper_store_conected")
    done = run(tmp_path, [as_test(RULES["storeAway"], PLAYED["storeAway"])], rules=spoilt)
    assert done.returncode != 0


@pytest.mark.contracts
def test_prometheus_takes_the_rule_file(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(shipped.rules())
    checked = subprocess.run(
        [promtool.require(), "check", "rules", str(tmp_path / "rules.yaml")],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(RULES)} rules found" in checked.stdout


def test_each_rule_is_played() -> None:
    assert PLAYED.keys() == RULES.keys()
    assert len(RULES) == len(alert_rules.RULES), "a name stands for one rule"


def test_there_is_one_vocabulary_of_alerts() -> None:
    """What a zone watch raises, and what is held back, have rules of their names and severities."""
    told: dict[str, Severity] = {str(alert): alert.severity for alert in Alert}
    told |= held_back.SEVERITIES
    assert {name: RULES[name].severity for name in told} == told


def test_each_rule_names_a_runbook_that_is_there() -> None:
    assert {rule.runbook for rule in alert_rules.RULES} <= shelf.pages().keys()


def test_what_a_person_ordered_is_spelled_as_the_bookie_spells_it() -> None:
    assert metrics.BY_PERSON == modes.BY_PERSON
