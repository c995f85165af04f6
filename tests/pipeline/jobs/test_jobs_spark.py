"""Jobs on a real Spark session, over real bookie processes."""

import csv
import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from tests.pipeline.jobs import planted
from tests.support import java_runtime
from zonekeeper import pipeline
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.pipeline.base import worker_client
from zonekeeper.pipeline.jobs import command_line, placement_audit, replica_audit, zone_report
from zonekeeper.pipeline.planning import job_output
from zonekeeper.replication.decisions.copies import FaultKind

pytestmark = pytest.mark.spark

#: Other tests write ledgers with lower ids into the same cluster.
FIRST = 50_000_000
LEDGERS = 10
FAULTS = 100
WANTED = f"{FIRST}-{FIRST + LEDGERS - 1}"


@pytest.fixture(scope="module")
def faults(cluster_address: str) -> set[planted.Planted]:
    """Ledgers with a hundred faults."""
    chance = random.Random(19)
    with worker_client.connect(cluster_address, ClientConfig()) as kept:
        made = kept.calls.do(
            lambda: planted.plant(kept.opened.client, FIRST, LEDGERS, FAULTS, chance)
        )
    assert len(made) == FAULTS
    assert len({one.fault for one in made}) == 3
    return set(made)


def test_every_planted_fault_is_found_and_nothing_else(
    spark: SparkSession, cluster_address: str, faults: set[planted.Planted]
) -> None:
    found = pipeline.replica_audit(
        spark,
        metadata=cluster_address,
        ledgers=WANTED,
        ledgers_per_task=3,
        bytes_per_second="1GiB",
        unwatched=True,
    ).collect()

    copies = Counter(
        planted.Planted(row["ledger"], entry, row["bookie"], FaultKind(row["finding"]))
        for row in found
        for entry in range(row["first"], row["last"] + 1, row["step"])
        # Of an entry with a copy that differs, each copy does; the planted one is alone.
        if row["same"] in (None, 1)
    )
    assert set(copies) == faults
    assert set(copies.values()) == {1}, "each fault is in one range"
    others = sum(row["entries"] for row in found if row["same"] == 2)
    assert others == 2 * sum(one.fault is FaultKind.DIFFERING for one in faults)


def test_the_outcome_says_how_much_was_read_and_what_was_found_where(
    spark: SparkSession, cluster_address: str, faults: set[planted.Planted]
) -> None:
    rows = replica_audit.everything(spark, metadata=cluster_address, ledgers=WANTED, unwatched=True)
    outcome = replica_audit.outcome(rows)

    assert outcome.found
    assert outcome.lines[0].startswith(f"{LEDGERS} ledgers, {LEDGERS * planted.ENTRIES} entries")
    holes = Counter(one.bookie for one in faults if one.fault is FaultKind.MISSING)
    for bookie, count in holes.items():
        told = [line for line in outcome.lines if line.startswith(f"missing on {bookie}: ")]
        assert [line.split()[3] for line in told] == [str(count)]
    whole = replica_audit.everything(
        spark, metadata=cluster_address, ledgers=str(FIRST + LEDGERS), unwatched=True
    )
    assert not replica_audit.outcome(whole).found


def test_a_cluster_without_a_zone_watch_is_not_read(
    spark: SparkSession, cluster_address: str
) -> None:
    rows = pipeline.replica_audit(spark, metadata=cluster_address)
    with pytest.raises(Exception, match="no zone watch is at work") as refused:
        rows.collect()
    assert "--unwatched" in command_line.of_spark(str(refused.value))


def test_each_fragment_is_audited_and_written_in_each_format(
    spark: SparkSession, cluster_address: str, faults: set[planted.Planted], tmp_path: Path
) -> None:
    rows = pipeline.placement_audit(
        spark, metadata=cluster_address, ledgers=WANTED, ledgers_per_task=4
    ).persist()
    assert rows.rdd.getNumPartitions() == 3
    for name in ("rows.parquet", "rows.csv", "rows.json"):
        job_output.check_absent(spark, str(tmp_path / name))
        job_output.write_table(rows, str(tmp_path / name))
        with pytest.raises(job_output.OutputRefused, match="exists already"):
            job_output.check_absent(spark, str(tmp_path / name))

    expected = list(range(FIRST, FIRST + LEDGERS))
    back = spark.read.parquet(str(tmp_path / "rows.parquet")).orderBy("ledger").collect()
    assert [row["ledger"] for row in back] == expected
    assert {row["level"] for row in back} == {"STRICT"}
    striped = back[1]
    assert (striped["ensemble"], len(striped["bookies"]), striped["last"]) == (6, 6, 149)
    assert Counter(loss["kind"] for loss in striped["losses"]) == {
        "zone": 3,
        "upgradeDomain": 6,
        "bookie": 6,
    }
    lines = [
        row
        for part in (tmp_path / "rows.csv").glob("*.csv")
        for row in csv.DictReader(part.read_text().splitlines())
    ]
    assert sorted(int(row["ledger"]) for row in lines) == expected
    assert len(json.loads(lines[0]["losses"])) in (9, 15)
    plain = [
        json.loads(line)
        for part in (tmp_path / "rows.json").glob("*.json")
        for line in part.read_text().splitlines()
    ]
    assert sorted(row["ledger"] for row in plain) == expected
    assert "error" in plain[0], "a null is written, too"

    outcome = placement_audit.outcome(rows)
    assert not outcome.found
    assert any(line.split()[:2] == ["STRICT", str(LEDGERS)] for line in outcome.lines)
    assert any(line.strip() == "zone a: no harm" for line in outcome.lines)
    at_risk = rows.withColumn("harm", sql.lit("at its last copy"))
    assert placement_audit.outcome(at_risk).found
    failed = rows.withColumn("level", sql.lit("FAIL"))
    assert placement_audit.outcome(failed).found
    unreadable = rows.withColumn("level", sql.lit(None).cast("string"))
    assert placement_audit.outcome(unreadable).found
    rows.unpersist()


def test_the_report_sums_up_all_tasks(
    spark: SparkSession, cluster_address: str, faults: set[planted.Planted]
) -> None:
    frame = pipeline.zone_report(
        spark,
        metadata=cluster_address,
        ledgers=WANTED,
        ledgers_per_task=3,
        price_per_gb="0.5",
        currency="EUR",
        price_as_of="2026-11-27",
        price_source="the list",
    ).persist()
    rows = {(row["kind"], row["name"]): row for row in frame.collect()}

    kinds = Counter(kind for kind, _ in rows)
    assert kinds == {"cluster": 1, "zone": 3, "upgradeDomain": 6, "bookie": 6}
    (cluster,) = (row for (kind, _), row in rows.items() if kind == "cluster")
    size_bytes = sum(
        len(b"%d of %d" % (entry, FIRST + at))
        for at in range(LEDGERS)
        for entry in range(planted.ENTRIES)
    )
    assert (cluster["ledgers"], cluster["bytes"]) == (LEDGERS, size_bytes)
    for kind in ("zone", "upgradeDomain", "bookie"):
        some = [row for (its, _), row in rows.items() if its == kind]
        assert abs(sum(row["bytes"] for row in some) - 3 * size_bytes) <= 6 * LEDGERS
        assert abs(sum(row["of_mean"] for row in some) / len(some) - 1) < 1e-9
    zone = rows["zone", "a"]
    assert zone["room"] == "fits"
    assert zone["capacity_bytes"] > zone["used_bytes"] > 0
    assert zone["loss_bytes"] == zone["bytes"]
    assert zone["loss_price"] == pytest.approx(zone["loss_crossing_bytes"] * 0.5 / 10**9)
    outcome = zone_report.outcome(frame)
    assert not outcome.found
    assert any(line.startswith("zone a: ") and "fits" in line for line in outcome.lines)
    for name, value in (("room", "no"), ("room", "unknown"), ("loss_unreadable", 1)):
        assert zone_report.outcome(frame.withColumn(name, sql.lit(value))).found
    frame.unpersist()


def test_the_command_writes_what_it_found_and_its_exit_code_says_whether(
    cluster_address: str, faults: set[planted.Planted], tmp_path: Path
) -> None:
    java_runtime.require("Spark")
    words = [
        *(sys.executable, "-m", "zonekeeper.pipeline", "replica-audit"),
        *("--metadata", cluster_address, "--ledgers", WANTED, "--unwatched", "yes"),
        *("--output", str(tmp_path / "found.json"), "--master", "local[1]"),
    ]
    ended = subprocess.run(words, check=False, capture_output=True, text=True)
    assert ended.returncode == command_line.FOUND == 1, ended.stderr
    assert ended.stdout.startswith(f"{LEDGERS} ledgers, ")
    lines = [
        json.loads(line)
        for part in (tmp_path / "found.json").glob("*.json")
        for line in part.read_text().splitlines()
    ]
    missing = sum(one["entries"] for one in lines if one["finding"] == "missing")
    assert missing == sum(one.fault is FaultKind.MISSING for one in faults)
    assert "ledgers" not in lines[0], "what was read is said, and not written"
