"""How far a mirror is, from Spark's reports."""

import json

import pytest

from zonekeeper.pipeline.reports import mirror_progress
from zonekeeper.pipeline.reports.mirror_progress import MirrorProgress


def offset(sequence: int) -> dict[str, object]:
    return {"at": None, "log": "0f", "sequence": sequence, "version": 1}


@pytest.mark.parametrize("form", [json.dumps, dict])
def test_the_lag_is_what_is_not_copied_yet(form: type) -> None:
    report = {"sources": [{"endOffset": form(offset(30)), "latestOffset": form(offset(42))}]}
    found = mirror_progress.seen(report)
    assert found == MirrorProgress(copied=30, end=42)
    assert found.lag == 12
    assert str(found) == "copied up to sequence 30; lag: 12 messages"


def test_an_end_that_is_unknown_or_was_seen_before_is_no_lag() -> None:
    for latest in (None, json.dumps(offset(20))):
        report = {"sources": [{"endOffset": json.dumps(offset(30)), "latestOffset": latest}]}
        found = mirror_progress.seen(report)
        assert found is not None
        assert found.lag == 0


@pytest.mark.parametrize(
    "report",
    [
        None,
        {},
        {"sources": []},
        {"sources": [{}, {}]},
        {"sources": [{"endOffset": None}]},
        {"sources": [{"endOffset": "-"}]},
        {"sources": [{"endOffset": "[]"}]},
        {"sources": [{"endOffset": {"sequence": "7"}}]},
        {"sources": [None]},
    ],
)
def test_a_report_that_does_not_say_it_gives_nothing(report: dict[str, object] | None) -> None:
    assert mirror_progress.seen(report) is None
