"""A killed zone, repaired by a job on a real Spark session over nine real bookie processes."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from tests.pipeline import gates
from tests.pipeline.dying_repair import DIES_BEHIND, DyingRepairSource
from tests.support import lost_zone
from zonekeeper import pipeline
from zonekeeper.client.base import beside_store
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.bookies.bookie_watch import registrations
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.pipeline.base import worker_client
from zonekeeper.pipeline.base.worker_client import KeptClient
from zonekeeper.pipeline.jobs import command_line, replica_audit, zone_repair
from zonekeeper.pipeline.planning import job_source
from zonekeeper.pipeline.reports import fault_rows, repair_rows
from zonekeeper.placement.base.ids import LedgerId, ZoneName
from zonekeeper.shell.local.local_cluster import LocalCluster
from zonekeeper.shell.local.local_shape import Shape

pytestmark = pytest.mark.spark

LEDGERS, ENTRIES, SIZE = 200, 10, 500
LIMIT_S = 60


@pytest.fixture(scope="module")
def nine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Nine bookies in three zones, and the certificate of an autorecovery process: none runs."""
    local = LocalCluster(tmp_path_factory.mktemp("nine") / "local")
    local.folder.path.mkdir()
    state = local.folder.make(Shape(bookies_per_zone=3, autorecovery=0), None)
    with_repair = replace(state.shape, autorecovery=1)
    asyncio.run(local._initialise(replace(state, shape=with_repair)))
    asyncio.run(local.up())
    yield local
    asyncio.run(local.down(purge=True))


@pytest.fixture(scope="module")
def kept(nine: LocalCluster) -> Iterator[KeptClient]:
    with worker_client.connect(nine.address, ClientConfig()) as made:
        yield made


def lost_in_c(nine: LocalCluster, kept: KeptClient) -> list[LedgerId]:
    """Write ledgers, kill zone c, and mark the ledgers as the auditor does."""
    client = kept.opened.client

    async def prepared() -> list[LedgerId]:
        return await lost_zone.written(client, LEDGERS, ENTRIES, SIZE)

    ids = kept.calls.do(prepared)
    asyncio.run(nine.kill_zone(ZoneName("c")))

    async def marked() -> list[LedgerId]:
        naming = await lost_zone.naming(client.cluster, ids, "bk-c-")
        for ledger_id, (_, members) in naming.items():
            await underreplication.mark(client.cluster, ledger_id, members, at_ms=1)
        async with asyncio.timeout(LIMIT_S):
            while any(one.startswith("bk-c-") for one in await registrations(client.cluster)):  # noqa: ASYNC110 another process does it
                await asyncio.sleep(0.1)
        return sorted(naming)

    return kept.calls.do(marked)


def test_a_killed_zone_is_repaired_once_though_a_worker_dies_and_nothing_moves_while_it_is_held(
    spark: SparkSession,
    nine: LocalCluster,
    kept: KeptClient,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    cluster = kept.opened.client.cluster
    ids = lost_in_c(nine, kept)
    assert len(ids) == LEDGERS, "each ledger has a copy in each zone"
    versions = kept.calls.do(lambda: lost_zone.versions(cluster, ids))
    files = beside_store.files_in(nine.folder.certificates / "auto-0")
    shown = {
        "tls_authority": str(files.authority),
        "tls_certificate": str(files.certificate),
        "tls_key": str(files.key),
    }
    given = {"metadata": nine.address, "ledgers_per_task": LEDGERS // 2, **shown}
    with gates.opened(nine.address) as gate:
        gate.hold("c")
        moved = kept.calls.do(lambda: lost_zone.bytes_at_bookies(cluster))
        words = ["zone-repair", "--metadata", nine.address, "--output", str(tmp_path / "x.json")]
        assert command_line.main(words) == command_line.NOT_DONE
        told = capsys.readouterr()
        assert f"marked for repair: {LEDGERS} ledgers" in told.out
        assert told.err.startswith("Error: nothing was read or copied, because repair is held: ")
        assert "zone c is held" in told.err
        with pytest.raises(Exception, match="zone c is held"):
            pipeline.zone_repair(
                spark,
                metadata=nine.address,
                tls_authority=shown["tls_authority"],
                tls_certificate=shown["tls_certificate"],
                tls_key=shown["tls_key"],
            ).collect()
        assert kept.calls.do(lambda: lost_zone.bytes_at_bookies(cluster)) == moved
        assert kept.calls.do(lambda: lost_zone.versions(cluster, ids)) == versions

        gate.open("c")
        rows = job_source.frame(spark, DyingRepairSource, given).persist()
        found = Counter(row["finding"] for row in rows.collect())
        assert found == {repair_rows.DONE: LEDGERS, repair_rows.COPIED: 2, fault_rows.READ: 2}
        outcome = zone_repair.outcome(rows)
        assert not outcome.found
        assert outcome.lines[0].startswith(f"done: {LEDGERS} ledgers; of these this job repaired ")
        assert outcome.lines[1].startswith(
            f"audited: {LEDGERS} ledgers, {LEDGERS * ENTRIES} entries"
        )
        copied = rows.where(sql.col("finding") == repair_rows.COPIED).agg(sql.sum("ledgers"))
        assert copied.collect()[0][0] <= LEDGERS - DIES_BEHIND, "a worker has died behind some"
        rows.unpersist()

        assert kept.calls.do(lambda: lost_zone.versions(cluster, ids)) == [
            one + 1 for one in versions
        ], "each ledger was swapped once"
        assert kept.calls.do(lambda: lost_zone.naming(cluster, ids, "bk-c-")) == {}
        assert kept.calls.do(lambda: underreplication.held(cluster)) == []
        audit = replica_audit.outcome(replica_audit.everything(spark, metadata=nine.address))
        assert not audit.found, audit.lines
        assert audit.lines[0].startswith(f"{LEDGERS} ledgers, {LEDGERS * ENTRIES} entries")
